// Reports a visit by the SDKs of Segment, RudderStack and Amplitude, and prints the IDs of the
// events that they say they have sent.
const [, , host, token] = process.argv
const {Analytics} = require('@segment/analytics-node')
const RudderStack = require('@rudderstack/rudder-sdk-node')
const amplitude = require('@amplitude/analytics-node')

const properties = {url: 'https://shop.example/kettles', password: 'typed-s3cr3t'}
const email = 'ada@example.com'
const say = (id) => console.log(id)

async function segment(userId) {
  const analytics = new Analytics({writeKey: token, host, path: '/segment/v1/batch'})
  const sent = (err, context) => (err ? console.error('Segment', err) : say(context.event.messageId))
  analytics.on('error', (err) => console.error('Segment', err))
  analytics.identify({userId, traits: {email}}, sent)
  analytics.page({userId, properties}, sent)
  analytics.track({userId, event: 'Added', properties}, sent)
  await analytics.closeAndFlush()
}

async function rudderstack(userId) {
  const analytics = new (RudderStack.default || RudderStack)(token, {dataPlaneUrl: host + '/rudderstack', flushAt: 2}) // which sends the first event by itself
  const sent = []
  const call = (method, event) => {
    const messageId = 'of-rudderstack-' + method
    sent.push(new Promise((done, fail) => analytics[method]({userId, messageId, ...event}, (err) => (err ? fail(err) : done(say(messageId))))))
  }
  call('identify', {traits: {email}})
  call('page', {properties})
  call('track', {event: 'Added', properties})
  await Promise.all(sent)
}

async function amplitudes(user_id) {
  await amplitude.init(token, {serverUrl: host + '/amplitude/2/httpapi'}).promise
  const page = {'[Amplitude] Page Location': properties.url, password: properties.password}
  const sent = [amplitude.identify(new amplitude.Identify().set('email', email), {user_id}),
    amplitude.track('[Amplitude] Page Viewed', page, {user_id}),
    amplitude.track('Added', page, {user_id})]
  await amplitude.flush().promise
  for (const {promise} of sent) {
    const {code, message, event} = await promise
    if (code === 200) say(event.insert_id)
    else console.error('Amplitude', code, message)
  }
}

Promise.all([segment('of-segment'), rudderstack('of-rudderstack'), amplitudes('of-amplitude')]).then(() => process.exit(0))
