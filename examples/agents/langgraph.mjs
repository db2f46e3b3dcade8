// The tools for createReactAgent, and what the model is told of one user:
//
//   npm install @langchain/mcp-adapters @langchain/langgraph @langchain/core
//   LIVEACTIVITY_URL=https://live.example.com LIVEACTIVITY_KEY=… node langgraph.mjs user_42
import {MultiServerMCPClient} from '@langchain/mcp-adapters'

const client = new MultiServerMCPClient({
  liveactivity: {
    transport: 'http',
    url: `${process.env.LIVEACTIVITY_URL}/mcp`,
    headers: {Authorization: `Bearer ${process.env.LIVEACTIVITY_KEY}`},
  },
})
const tools = await client.getTools()
const context = await tools.find((tool) => tool.name === 'get_user_context').invoke({user_id: process.argv[2]})
console.log(context.text ?? context)
await client.close()
