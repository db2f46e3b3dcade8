// Package deploy tests the files in the folder deploy: it checks that each flag,
// endpoint and metric that they name exists.
package deploy
