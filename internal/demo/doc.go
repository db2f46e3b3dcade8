// Package demo is the page of a server without a product file: a small shop that
// reports to the server like a real one, and next to it a help desk whose
// conversations are in memory. It needs no account, no key and no network.
//
// The page contains the demo product's key, so it is served on this machine only:
// to a loopback peer that asks for a loopback host, without a proxy, and with the
// secret from the URL printed at startup. A cookie keeps the secret.
package demo
