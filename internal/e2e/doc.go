// Package e2e holds the end-to-end tests: a real browser with the real
// posthog-js on a page of one origin, the real server on another, and readers
// of the REST interface and of the stream at the other end.
package e2e
