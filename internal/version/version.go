// Package version says which version of liveactivity this is.
package version

// Version is the version of the module, as in CHANGELOG.md.
const Version = "0.1.0"
