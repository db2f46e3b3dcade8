// Package deploy tests the files of the folder deploy: each flag, endpoint and metric
// that they name exists.
package deploy
