// Package deploy tests the files of the folder deploy: they name only what the
// server really has.
package deploy
