package boltlog

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	bolt "go.etcd.io/bbolt"

	"github.com/liveactivity/liveactivity/activity/document"
	"github.com/liveactivity/liveactivity/internal/musttest"
	"github.com/liveactivity/liveactivity/stream/eventlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// children are the tasks of this program in a process of its own.
var children = map[string]func(){
	"damage": damageEveryPage,
}

// child returns a command that does one of children.
func child(t testing.TB, do string, env ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	require.NoError(t, err)
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env = append(append(os.Environ(), childEnv+"="+do, "GORACE=atexit_sleep_ms=0"), env...)
	return cmd
}

// sample makes a small file with data of every kind, and returns it.
func sample(t testing.TB) []byte {
	t.Helper()
	dir := t.TempDir()
	log := openLog(t, dir, &Options{Retention: eventlog.Retention{MaxBytes: 30 << 10}})
	for n := range 80 {
		eventlogtest.Append(t, log, acme, eventlogtest.Sized(eventlogtest.Entry("a", n), 400))
	}
	eventlogtest.Append(t, log, acme, eventlogtest.Sized(eventlogtest.Entry("large", 0), 14<<10))
	for n := range 50 {
		put(t, log, acme, fmt.Sprint("document ", n), strings.Repeat("x", 4*n), time.Duration(n%2)*time.Hour)
	}
	eventlogtest.Append(t, log, "small", eventlogtest.Entries("b", 3)...)
	put(t, log, "small", "document", "value", 0)
	eventlogtest.Append(t, log, "other", eventlogtest.Entries("c", 60)...)
	require.NoError(t, log.Release())
	return musttest.New(os.ReadFile(filepath.Join(dir, FileName)))
}

// content is everything that a log holds of a product, read through the API.
type content struct {
	bounds eventlog.Bounds
	items  []item
	docs   map[string]string
}

// contentOf reads a product, some entries at a time.
func contentOf(log *Log, productID string) (c content, err error) {
	ctx := context.Background()
	if c.bounds, err = log.Bounds(ctx, productID); err != nil {
		return c, err
	}
	dst := make([]eventlog.Entry, 100)
	for after, n := c.bounds.TrimmedTo, len(dst); n > 0; {
		if n, err = log.Read(ctx, productID, after, dst); err != nil {
			return c, err
		}
		if n > 0 {
			c.items, after = append(c.items, items(dst[:n])...), dst[n-1].ID
		}
	}
	docs, err := log.Documents().List(ctx, productID, "", "", 1<<20)
	c.docs = map[string]string{}
	for _, d := range docs {
		c.docs[d.Name] = fmt.Sprint(d.Version, string(d.Value))
	}
	return c, err
}

func whatIsIn(dir string) (map[string]content, error) {
	log, err := Open(dir, &Options{TailBytes: 2 << 10})
	if err != nil {
		return nil, err
	}
	all := map[string]content{}
	for _, id := range []string{acme, "small", "other"} {
		c, failure := contentOf(log, id)
		all[id], err = c, errors.Join(err, failure)
	}
	return all, errors.Join(err, log.Release())
}

// damages are ways to overwrite a page. whole is the file before the damage.
var damages = map[string]func(page []byte, number int, whole []byte){
	"zeroed":   func(page []byte, _ int, _ []byte) { clear(page) },
	"all ones": func(page []byte, _ int, _ []byte) { copy(page, bytes.Repeat([]byte{0xff}, len(page))) },
	"noise": func(page []byte, number int, _ []byte) {
		random := rand.New(rand.NewPCG(1, uint64(number)))
		for i := range page {
			page[i] = byte(random.Uint32())
		}
	},
	"half zeroed":      func(page []byte, _ int, _ []byte) { clear(page[len(page)/2:]) },
	"beginning zeroed": func(page []byte, _ int, _ []byte) { clear(page[:512]) },
	"another page's": func(page []byte, number int, whole []byte) {
		copy(page, whole[(number+3)*len(page)%len(whole):])
	},
}

// damageEveryPage damages each page of the file in the folder BOLTLOG_TEST_DIR in every way, and tries the result. It
// prints each attempt before it begins, so that the last line names the attempt that killed it.
func damageEveryPage() {
	dir := os.Getenv("BOLTLOG_TEST_DIR")
	want, err := whatIsIn(dir)
	check(err)
	whole, err := os.ReadFile(filepath.Join(dir, FileName))
	check(err)
	size := os.Getpagesize()
	for number := range len(whole) / size {
		if allZero(whole[number*size : (number+1)*size]) {
			continue // the rest of the file was never written
		}
		for name, damage := range damages {
			fmt.Printf("page %d: %s\n", number, name)
			file := bytes.Clone(whole)
			damage(file[number*size:(number+1)*size], number, whole)
			check(tryDamaged(filepath.Join(dir, fmt.Sprint(number, name)), file, want))
		}
	}
	fmt.Println("done")
}

func check(err error) {
	if err != nil {
		fmt.Println("FAILED:", err)
		os.Exit(1)
	}
}

func allZero(page []byte) bool { return len(bytes.Trim(page, "\x00")) == 0 }

// tryDamaged opens a damaged file in a new folder. The file must be refused and left as it is, or
// hold everything and be usable.
func tryDamaged(dir string, file []byte, want map[string]content) error {
	path := filepath.Join(dir, FileName)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(path, file, 0o600)); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	got, err := whatIsIn(dir)
	if err != nil {
		return refusal(path, file, err)
	}
	if !reflect.DeepEqual(want, got) {
		return fmt.Errorf("it was opened, but holds something else")
	}
	return use(dir)
}

func use(dir string) error {
	log, err := Open(dir, nil)
	if err != nil {
		return err
	}
	ctx := context.Background()
	_, err = log.Documents().Write(ctx, "new", document.Put(document.Document{Name: "a"}, nil, 0))
	err = errors.Join(log.Append(ctx, acme, eventlogtest.Entries("new", 20)), err, log.Expire(ctx), log.Release())
	if err != nil {
		return err
	}
	_, err = whatIsIn(dir)
	return err
}

// refusal returns an error unless the file was refused properly.
func refusal(path string, file []byte, err error) error {
	if !errors.Is(err, ErrDamaged) && !errors.Is(err, ErrForeign) || !strings.Contains(err.Error(), path) {
		return fmt.Errorf("refused with %w", err)
	}
	left, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if !bytes.Equal(file, left) {
		return fmt.Errorf("it was refused, and written to")
	}
	return nil
}

// The damage is done in another process, because a mistake here may kill it.
func TestOpen_refusesEveryDamagedPage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, FileName), sample(t), 0o600))
	output, err := child(t, "damage", "BOLTLOG_TEST_DIR="+dir, "GOGC=1000").CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	require.NoError(t, err, "%s", strings.Join(lines[max(0, len(lines)-60):], "\n"))
	require.Equal(t, "done", lines[len(lines)-1])
	t.Logf("%d ways to damage the file", len(lines)-1)
}

// Open refuses a file that is not of this program, or not whole. The error names the file, and the
// file stays as it is.
func TestOpen_refusesForeignFiles(t *testing.T) {
	whole := sample(t)
	cut := func(n int) []byte { return whole[:n] }
	for name, test := range map[string]struct {
		file []byte
		want error
	}{
		"empty":  {nil, ErrDamaged},
		"a byte": {[]byte("x"), ErrForeign},
		"text":   {[]byte(strings.Repeat("This is no database.\n", 1000)), ErrForeign},
		"zeros":  {make([]byte, len(whole)), ErrForeign},
		"sqlite": {append([]byte("SQLite format 3\x00\x10\x00\x01\x01\x00\x40\x20\x20"),
			make([]byte, 8192)...), ErrForeign},
		"another bbolt file":          {boltFile(t, nil), ErrForeign},
		"of a later format":           {boltFile(t, map[string]string{"format": "7"}), ErrForeign},
		"of an earlier format":        {boltFile(t, map[string]string{"format": "4"}), ErrForeign},
		"of no format":                {boltFile(t, map[string]string{"other": "1"}), ErrForeign},
		"a page of it":                {cut(4096), ErrDamaged},
		"two pages of it":             {cut(8192), ErrDamaged},
		"three pages of it":           {cut(12288), ErrDamaged},
		"a third of it":               {cut(len(whole) / 3), ErrDamaged},
		"a third of it, not rounded":  {cut(len(whole)/3 + 77), ErrDamaged},
		"without its beginning":       {whole[4096:], ErrDamaged},
		"with foreign free pages":     {withFreePages(whole), ErrDamaged},
		"the same, its metas swapped": {withFreePages(metasSwapped(whole)), ErrDamaged},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, FileName)
			require.NoError(t, os.WriteFile(path, test.file, 0o600))
			_, err := Open(dir, nil)
			require.ErrorIs(t, err, test.want)
			require.NoError(t, refusal(path, test.file, err))
			names := musttest.New(filepath.Glob(dir + "/*"))
			assert.Equal(t, []string{path}, names)
		})
	}
}

// metas returns the contents of the first two pages of a file, which tell its last two
// transactions, behind their heads.
func metas(file []byte) (a, b []byte) {
	const head, size = 16, 64
	other := file[os.Getpagesize():]
	return file[head : head+size], other[head : head+size]
}

// metasSwapped returns a file whose last transaction is in the other of the first two pages.
func metasSwapped(file []byte) []byte {
	swapped := bytes.Clone(file)
	a, b := metas(file)
	newA, newB := metas(swapped)
	copy(newA, b)
	copy(newB, a)
	return swapped
}

// withFreePages returns a file in which the list of free pages of the last transaction is replaced by another page
// that lists page 4 as free. A page begins with its number, its kind, and the number of its items.
func withFreePages(file []byte) []byte {
	file = bytes.Clone(file)
	newest, other := metas(file)
	number := binary.NativeEndian.Uint64
	if transaction := 48; number(newest[transaction:]) < number(other[transaction:]) {
		newest = other
	}
	page := file[int(number(newest[32:]))*os.Getpagesize():]
	page[0]++
	binary.NativeEndian.PutUint16(page[10:], 1)
	binary.NativeEndian.PutUint64(page[16:], 4)
	return file
}

// boltFile returns a bbolt file with some values in the bucket liveactivity.
func boltFile(t *testing.T, values map[string]string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "bolt")
	db := musttest.New(bolt.Open(path, 0o600, nil))
	require.NoError(t, db.Update(func(tx *bolt.Tx) error {
		name := "someone else's"
		if values != nil {
			name = "liveactivity"
		}
		b, err := tx.CreateBucket([]byte(name))
		for k, v := range values {
			err = errors.Join(err, b.Put([]byte(k), []byte(v)))
		}
		return err
	}))
	require.NoError(t, db.Close())
	return musttest.New(os.ReadFile(path))
}

// When a file is cut while it is in use, the memory mapped from its end cannot be read any more:
// calls fail, and the process lives.
func TestLog_survivesAFileThatIsCutUnderIt(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	log := openLog(t, dir, &Options{TailBytes: 1})
	start := eventlogtest.Bounds(t, log, acme).Newest
	for n := range 50 {
		eventlogtest.Append(t, log, acme, eventlogtest.Sized(eventlogtest.Entry("a", n), 4000))
		put(t, log, acme, fmt.Sprint(n), strings.Repeat("x", 2000), time.Hour)
	}
	require.NoError(t, os.Truncate(filepath.Join(dir, FileName), 8<<10))
	ctx := t.Context()
	require.ErrorContains(t, errorOf(log.Read(ctx, acme, start, make([]eventlog.Entry, 100))), dir)
	for _, err := range []error{
		errorOf(log.Read(ctx, acme, start, make([]eventlog.Entry, 100))),
		errorOf(log.Documents().Get(ctx, acme, "1")),
		errorOf(log.Documents().List(ctx, acme, "", "", 10)),
		log.Append(ctx, acme, eventlogtest.Entries("b", 1)),
		log.Append(ctx, acme, eventlogtest.Entries("b", 1)),
		log.Expire(ctx),
	} {
		require.ErrorIs(t, err, ErrDamaged)
	}
	require.NoError(t, errorOf(log.Bounds(ctx, acme)))
}
