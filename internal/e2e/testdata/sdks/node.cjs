// A visit that a server reports by posthog-node: node.cjs HOST TOKEN
'use strict'
const { PostHog } = require('posthog-node')

async function main ([host, token]) {
  const posthog = new PostHog(token, { host })
  const report = (event, properties) => posthog.capture({
    distinctId: 'user_42', event, properties: { $session_id: 'visit', $current_url: 'https://shop.example/kettles', ...properties }
  })
  posthog.identify({ distinctId: 'user_42', properties: { $set: { email: 'ada@example.com' } } })
  report('$pageview')
  report('$autocapture', { $event_type: 'click', $elements: [{ tag_name: 'button', $el_text: 'Add to cart' }] })
  report('stock checked') // means nothing here
  report('$pageview', { $current_url: 'https://shop.example/checkout' })
  await posthog.shutdown()
}

main(process.argv.slice(2))
