// Package servercmd is the command liveactivity-server as a function, for a program
// that adds a help desk, a trigger or a view but keeps the flags, the product file and
// the other commands:
//
//	func main() {
//		servercmd.Main(&liveactivity.Options{
//			Desks: []helpdesk.Kind{intercom.Kind, zendesk.Kind, chatwoot},
//		})
//	}
package servercmd
