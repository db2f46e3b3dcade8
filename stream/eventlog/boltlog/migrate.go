package boltlog

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	bolt "go.etcd.io/bbolt"
)

// migrations has a step for each released format before this one, by its number. A step turns a
// file of its format into one of the next, but for the number, which runMigrations writes after
// the last step.
var migrations = map[string]func(*bolt.Tx) error{}

// migrate brings a file of an earlier format up to this one, in a single transaction. Before
// that it keeps a copy beside the file, under the file's name with ".format-N" behind it, and
// replaces the copy of an attempt before. A file of a format without a step stays as it is,
// byte for byte; load refuses it.
func migrate(db *bolt.DB) (err error) {
	defer recoverDamage(db.Path(), &err)()
	var found string
	err = db.View(func(tx *bolt.Tx) error {
		if b := tx.Bucket(bucketFormat); b != nil {
			found = string(b.Get(keyFormat))
		}
		if migrations[found] == nil {
			return nil
		}
		return keepCopy(tx, db.Path()+".format-"+found)
	})
	if err == nil && migrations[found] != nil {
		err = db.Update(func(tx *bolt.Tx) error { return runMigrations(tx, found) })
	}
	if err != nil {
		return fmt.Errorf("boltlog: cannot migrate %s from format %.20q: %w", db.Path(), found, err)
	}
	return nil
}

// runMigrations takes all steps from a format to this one. It fails where one is missing.
func runMigrations(tx *bolt.Tx, at string) error {
	for at != format {
		step := migrations[at]
		n, err := strconv.Atoi(at)
		if step == nil || err != nil {
			return fmt.Errorf("nothing leads from format %q to %q", at, format)
		}
		if err := step(tx); err != nil {
			return err
		}
		at = strconv.Itoa(n + 1)
	}
	return writeFormat(tx)
}

// keepCopy copies the file, in the state that tx sees. The copy lasts when it returns; after an
// error it may be incomplete.
func keepCopy(tx *bolt.Tx, path string) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = tx.WriteTo(file)
	if err := errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return syncFolder(filepath.Dir(path))
}
