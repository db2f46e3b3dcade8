package boltlog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	bolt "go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Errors of Open, wrapped with the path and what to do. What reads or commits
// find damaged later is ErrDamaged, too.
var (
	ErrInUse   = errors.New("boltlog: in use by another process")
	ErrDamaged = errors.New("boltlog: the file is damaged")
	ErrForeign = errors.New("boltlog: the file is not of this program or version")
)

// ErrUncertain is the error of everything that would be written after a write
// of which it is not known whether it has reached the disk: the process must be
// restarted, which reads the file again. What was acknowledged is not concerned.
var ErrUncertain = errors.New("boltlog: a write may not have reached the disk; the process must be restarted")

// lockTimeout is how long Open waits for another process to release the file.
const lockTimeout = time.Second

// openFile opens the file in dir, which is created if it is missing.
func openFile(dir string, r *reading) (*bolt.DB, error) {
	if err := makeFolder(dir); err != nil {
		return nil, fmt.Errorf("boltlog: cannot make the folder: %w", err)
	}
	path := filepath.Join(dir, FileName)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		if err := create(dir, path); err != nil {
			return nil, fmt.Errorf("boltlog: cannot make the file: %w", err)
		}
	}
	return openWhole(path, &bolt.Options{}, r)
}

// openToRead opens the file in dir, which is never changed.
func openToRead(dir string, r *reading) (*bolt.DB, error) {
	return openWhole(filepath.Join(dir, FileName), &bolt.Options{ReadOnly: true}, r)
}

// openWhole opens a file that exists and is not damaged.
func openWhole(path string, opts *bolt.Options, r *reading) (db *bolt.DB, err error) {
	if err := check(path, r); err != nil {
		return nil, err
	}
	defer recoverDamage(path, &err)()
	return openBolt(path, opts)
}

// reading is how far the file is read that is being opened.
type reading struct {
	report      func(done, total int64) // may be nil
	done, total int64                   // bytes
}

// begin begins to read a file of this size: to check it, and to load it.
func (r *reading) begin(size int64) { r.total = 2 * size }

// add records that so many bytes were read.
func (r *reading) add(n int) {
	r.done = min(r.done+int64(n), r.total)
	if r.report != nil {
		r.report(r.done, r.total)
	}
}

// checked records that the file was checked. Not all of it had to be read.
func (r *reading) checked() { r.done = r.total / 2 }

// makeFolder makes the folder, and what it is in, to last.
func makeFolder(dir string) error {
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		return os.MkdirAll(dir, 0o700) // fails for what is not a folder
	}
	parent := filepath.Dir(dir)
	if err := makeFolder(parent); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncFolder(parent)
}

func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	err = errors.Join(folder.Sync(), folder.Close())
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		return nil // file systems that have no such thing
	}
	return err
}

// create makes a new file. It gets its name when it is complete, and never
// takes the place of one that another process has made meanwhile.
func create(dir, path string) error {
	whole, err := os.CreateTemp(dir, FileName+".new-*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(whole.Name()) }()
	if err := whole.Close(); err != nil {
		return err
	}
	db, err := bolt.Open(whole.Name(), 0o600, nil)
	if err != nil {
		return err
	}
	if err := errors.Join(db.Update(writeFormat), db.Close()); err != nil {
		return err
	}
	if err := publishFile(whole.Name(), path); err != nil {
		return err
	}
	return syncFolder(dir)
}

// publishFile gives the file its name, unless there is one of that name.
func publishFile(whole, path string) error {
	err := os.Link(whole, path)
	if err == nil || errors.Is(err, fs.ErrExist) {
		return nil
	}
	if _, err := os.Lstat(path); err == nil {
		return nil
	}
	return os.Rename(whole, path) // on file systems without links
}

// check returns an error for a file that bbolt cannot rely on, which it leaves
// as it is. For that it opens the file to read it only: bbolt would write to an
// empty one, and panic about others. It reads most of the file, several times
// as fast as bbolt does, which then finds it in memory.
func check(path string, r *reading) (err error) {
	defer recoverDamage(path, &err)()
	var file *os.File
	db, err := openBolt(path, &bolt.Options{ReadOnly: true, OpenFile: func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		if file, err = os.OpenFile(name, flag, mode); err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err != nil || info.Size() == 0 {
			return nil, errors.Join(errEmpty, err, file.Close())
		}
		return file, nil
	}})
	if err != nil {
		return err
	}
	if err := checkStructure(db, file, r); err != nil {
		return errors.Join(openError(path, err), db.Close())
	}
	return db.Close()
}

var errEmpty = errors.New("it is empty")

// openBolt opens a file that exists.
func openBolt(path string, opts *bolt.Options) (*bolt.DB, error) {
	opts.Timeout, opts.FreelistType = lockTimeout, bolt.FreelistMapType
	db, err := bolt.Open(path, 0o600, opts)
	if err != nil {
		return nil, openError(path, err)
	}
	return db, nil
}

// openError says what an error of bolt.Open or checkStructure means.
func openError(path string, err error) error {
	var cause syscall.Errno
	switch {
	case errors.Is(err, bolterrors.ErrTimeout):
		return fmt.Errorf("%w: %s; each process needs its own folder", ErrInUse, path)
	case errors.Is(err, bolterrors.ErrInvalid), errors.Is(err, bolterrors.ErrVersionMismatch):
		return fmt.Errorf("%w: %s: %w", ErrForeign, path, err)
	case errors.As(err, &cause):
		return fmt.Errorf("boltlog: cannot open the file %s: %w", path, err)
	}
	return fmt.Errorf("%w: %s: %w", ErrDamaged, path, err)
}

// recoverDamage turns what reading a damaged file may do, panics of bbolt and
// faults of its memory map, into an error. Other panics go on. The function it
// returns must be deferred.
func recoverDamage(path string, err *error) func() {
	faults := debug.SetPanicOnFault(true)
	return func() {
		debug.SetPanicOnFault(faults)
		problem := recover()
		if problem == nil {
			return
		}
		if _, fault := problem.(interface{ Addr() uintptr }); !fault && !panicIsOf("go.etcd.io/bbolt") {
			panic(problem)
		}
		*err = fmt.Errorf("%w: %s: %v", ErrDamaged, path, problem)
	}
}

// panicIsOf reports whether the current panic began in code of a package, or
// of one below it.
func panicIsOf(pkg string) bool {
	var stack [64]uintptr
	frames := runtime.CallersFrames(stack[:runtime.Callers(0, stack[:])])
	panicking := false
	for {
		frame, more := frames.Next()
		if panicking && !strings.HasPrefix(frame.Function, "runtime.") {
			return strings.Contains(frame.Function, pkg)
		}
		panicking = panicking || frame.Function == "runtime.gopanic"
		if !more {
			return false
		}
	}
}
