// Package e2e holds the tests that take the whole way: a real browser with the
// real posthog-js on a page of one origin, the real server on another, and
// readers of the REST interface and of the stream at the far end.
package e2e
