// Package demo is what a server without a product file shows a visitor: a small
// shop that reports to the server as a real one does, and a help desk beside it
// whose conversations are in memory. Nothing of it needs an account, a key to
// paste, or the network.
//
// The page holds the key of the demo product, so it is handed out on this machine
// only: to a loopback peer that asks for a loopback host, and not through a proxy.
package demo
