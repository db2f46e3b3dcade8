// Package demo is the page of a server without a product file: a small shop that
// reports to the server as a real one does, and a help desk beside it whose
// conversations are in memory. It needs no account, no key and no network.
//
// The page holds the key of the demo product, so it is served on this machine
// only: to a loopback peer that asks for a loopback host, not through a proxy, and
// with the secret of the address that the start prints. A cookie keeps the secret.
package demo
