package boltlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
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

// Errors of Open, wrapped with the path and with advice. Calls that find damage later
// return ErrDamaged as well.
var (
	ErrInUse   = errors.New("boltlog: in use by another process")
	ErrDamaged = errors.New("boltlog: the file is damaged")
	ErrForeign = errors.New("boltlog: the file is not of this program or version")
)

// ErrUncertain is returned by every write after one that may or may not have reached the
// disk: the process must be restarted, to read the file again. Acknowledged writes are not
// affected.
var ErrUncertain = errors.New("boltlog: a write may not have reached the disk; the process must be restarted")

// lockTimeout is how long Open waits for another process to release the file.
const lockTimeout = time.Second

// openFile opens the file in dir. It creates both if they are missing, unless readOnly is set.
func openFile(dir string, readOnly bool) (*bolt.DB, error) {
	path := filepath.Join(dir, FileName)
	if !readOnly {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("boltlog: cannot make the folder: %w", err)
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			if err := create(dir, path); err != nil {
				return nil, fmt.Errorf("boltlog: cannot make the file: %w", err)
			}
		}
	}
	return openBolt(path, readOnly)
}

// syncFolder makes the entries of a folder durable, and then the folder itself and each of its
// parents, since some of them may be new. It stops without an error at a folder that this
// process may not read.
func syncFolder(dir string) error {
	folder, err := os.Open(dir)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	err = errors.Join(folder.Sync(), folder.Close())
	if errors.Is(err, syscall.EINVAL) || errors.Is(err, errors.ErrUnsupported) {
		err = nil // the file system does not support it
	}
	if parent := filepath.Dir(dir); err == nil && parent != dir {
		return syncFolder(parent)
	}
	return err
}

// create makes a new file. The file gets its name when it is complete, and never replaces one
// that another process has made in the meantime: a link fails where a rename would replace it.
// Only on a file system without links is it renamed, after a check that the name is free. A
// process killed in between leaves a file named FileName.new-…, which can be deleted.
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
	err = os.Link(whole.Name(), path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) { // a file system without links
			if err := os.Rename(whole.Name(), path); err != nil {
				return err
			}
		}
	}
	return syncFolder(dir)
}

// openBolt opens an existing file. It refuses files that bbolt would accept: an empty one,
// which bbolt would initialize, a truncated one, and one that lacks its last transaction.
func openBolt(path string, readOnly bool) (db *bolt.DB, err error) {
	defer recoverDamage(path, &err)()
	var file *os.File
	open := func(name string, flag int, mode os.FileMode) (*os.File, error) {
		var err error
		if file, err = os.OpenFile(name, flag, mode); err != nil {
			return nil, err
		}
		if info, err := file.Stat(); err != nil || info.Size() == 0 {
			return nil, errors.Join(errors.New("it is empty"), err, file.Close())
		}
		return file, nil
	}
	// bbolt's default, an array, slows down in a large file with many free pages.
	opts := &bolt.Options{Timeout: lockTimeout, FreelistType: bolt.FreelistMapType, ReadOnly: readOnly, OpenFile: open}
	if db, err = bolt.Open(path, 0o600, opts); err != nil {
		return nil, openError(path, err)
	}
	if err := checkWhole(db, file); err != nil {
		return nil, errors.Join(openError(path, err), db.Close())
	}
	return db, nil
}

// checkWhole checks that the file is not truncated, that neither of its first two pages was
// overwritten, and that the list of its free pages is in its place. Pages are in the byte
// order of the machine, like all of bbolt's own data.
func checkWhole(db *bolt.DB, file *os.File) error {
	pageSize := int64(db.Info().PageSize)
	free, err := checkMeta(file, pageSize)
	if err != nil {
		return err
	}
	var number [8]byte // begins the head of a page; bbolt does not check this page's
	if _, err := file.ReadAt(number[:], int64(free)*pageSize); err != nil {
		return err
	}
	if binary.NativeEndian.Uint64(number[:]) != free {
		return fmt.Errorf("another page is in place of page %d", free)
	}
	return db.View(func(tx *bolt.Tx) error {
		info, err := file.Stat()
		if err == nil && info.Size() < tx.Size() {
			err = fmt.Errorf("it has %d bytes of %d", info.Size(), tx.Size())
		}
		return err
	})
}

// checkMeta checks the first two pages and returns the number of the page that lists the free
// pages. A transaction ends by writing one of the two, in turn. If one is damaged, bbolt silently
// falls back to the other, and so to the transaction before the last.
func checkMeta(file *os.File, pageSize int64) (free uint64, err error) {
	// Offsets in the contents of a page, after its head. The sum covers everything before it.
	const head, freeList, transaction, sum, size = 16, 32, 48, 56, 64
	var newest uint64
	for n := range int64(2) {
		var page [size]byte
		if _, err := file.ReadAt(page[:], n*pageSize+head); err != nil {
			return 0, err
		}
		hash := fnv.New64a()
		_, _ = hash.Write(page[:sum])
		if hash.Sum64() != binary.NativeEndian.Uint64(page[sum:]) {
			return 0, fmt.Errorf("page %d is damaged", n)
		}
		if id := binary.NativeEndian.Uint64(page[transaction:]); id >= newest {
			newest, free = id, binary.NativeEndian.Uint64(page[freeList:])
		}
	}
	return free, nil
}

// openError adds the file and the remedy to an error of bolt.Open or checkWhole. Errors of
// the operating system keep their kind; any other error means damage.
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

// recoverDamage turns the effects of reading a damaged file, panics in bbolt and faults in its
// memory map, into an error. Other panics continue. The function that it returns must be
// deferred by the goroutine that reads: faults become panics for this goroutine only, until the
// function runs.
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

// panicIsOf reports whether the current panic began in code of a package, or of a package
// below it.
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
