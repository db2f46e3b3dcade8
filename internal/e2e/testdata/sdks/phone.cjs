// A visit to an app with posthog-react-native: phone.cjs HOST TOKEN. What the
// SDK asks of React Native stands in for a phone.
'use strict'
const Module = require('module')
const phone = {
  AppState: { addEventListener: () => ({ remove () {} }) },
  Dimensions: { get: () => ({ width: 390, height: 844 }) },
  Linking: { getInitialURL: async () => null },
  Platform: { OS: 'ios', Version: '17.4', select: (choices) => choices.ios }
}
const load = Module._load
Module._load = function (name, ...rest) { return name === 'react-native' ? phone : load.call(this, name, ...rest) }

const { PostHog } = require('posthog-react-native/lib/posthog-react-native/src/posthog-rn')
const { autocaptureFromTouchEvent } = require('posthog-react-native/lib/posthog-react-native/src/autocapture')

// component is what React keeps of a component inside of another.
const component = (name, props, parent) => ({ elementType: { name }, memoizedProps: props, return: parent })

async function main ([host, token]) {
  const posthog = await PostHog.initAsync(token, { host, persistence: 'memory' })
  const touch = (target) => autocaptureFromTouchEvent({ _targetInst: target, nativeEvent: { pageX: 1, pageY: 2 } }, posthog)
  posthog.identify('user_42', { email: 'ada@example.com' })
  posthog.screen('Order Details')
  const screen = component('View', { testID: 'order' })
  touch(component('Text', { children: 'Reorder' }, component('TouchableOpacity', { accessibilityLabel: 'Reorder everything' }, screen)))
  touch(component('TextInput', { children: '12 Acacia Avenue' }, screen))
  await posthog.shutdownAsync()
}

main(process.argv.slice(2))
