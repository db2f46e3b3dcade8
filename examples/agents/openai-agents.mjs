// An agent with the tools, and what its model is told of one user:
//
//   npm install @openai/agents zod
//   LIVEACTIVITY_URL=https://live.example.com LIVEACTIVITY_KEY=… node openai-agents.mjs user_42
import {Agent, MCPServerStreamableHttp} from '@openai/agents'

const live = new MCPServerStreamableHttp({
  url: `${process.env.LIVEACTIVITY_URL}/mcp`,
  requestInit: {headers: {Authorization: `Bearer ${process.env.LIVEACTIVITY_KEY}`}},
})
await live.connect()
const agent = new Agent({name: 'Support', instructions: 'Look at what the user did before you answer.', mcpServers: [live]})
const context = await live.callTool('get_user_context', {user_id: process.argv[2]})
console.log(`${agent.name} is told:\n${context[0].text}`)
await live.close()
