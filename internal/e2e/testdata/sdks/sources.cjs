// Reports a page view by the SDKs of Segment, RudderStack and Amplitude.
const [, , host, token] = process.argv
const {Analytics} = require('@segment/analytics-node')
const RudderStack = require('@rudderstack/rudder-sdk-node')
const amplitude = require('@amplitude/analytics-node')

const url = 'https://shop.example/kettles'

async function main() {
  const segment = new Analytics({writeKey: token, host, path: '/segment/v1/batch'})
  segment.on('error', (err) => console.error('Segment', err))
  segment.page({userId: 'of-segment', properties: {url}})
  await segment.closeAndFlush()

  const rudderstack = new (RudderStack.default || RudderStack)(token, {dataPlaneUrl: host + '/rudderstack', flushAt: 1})
  await new Promise((done) => rudderstack.page({userId: 'of-rudderstack', properties: {url}}, done))

  await amplitude.init(token, {serverUrl: host + '/amplitude/2/httpapi'}).promise
  const sent = amplitude.track('[Amplitude] Page Viewed', {'[Amplitude] Page Location': url}, {user_id: 'of-amplitude'})
  await amplitude.flush().promise
  const {code, message} = await sent.promise
  if (code !== 200) console.error('Amplitude', code, message)
}

main().then(() => process.exit(0))
