// The tools for generateText or streamText, and what the model is told of one user:
//
//   npm install @ai-sdk/mcp
//   LIVEACTIVITY_URL=https://live.example.com LIVEACTIVITY_KEY=… node vercel-ai-sdk.mjs user_42
import {createMCPClient} from '@ai-sdk/mcp'

const client = await createMCPClient({
  transport: {
    type: 'http',
    url: `${process.env.LIVEACTIVITY_URL}/mcp`,
    headers: {Authorization: `Bearer ${process.env.LIVEACTIVITY_KEY}`},
  },
})
const tools = await client.tools()
const context = await tools.get_user_context.execute({user_id: process.argv[2]}, {toolCallId: '1', messages: []})
console.log(context.content[0].text)
await client.close()
