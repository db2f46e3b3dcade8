package boltlog_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/stream/eventlog/boltlog"
	"github.com/liveactivity/liveactivity/stream/eventlog/eventlogtest"
)

// What a single damaged field leads to, if no sum covers it, is a key that is not
// found, a commit that cannot be made, or a read without end.
func TestOpen_refusesDamageThatNoSumCovers(t *testing.T) {
	const branch, leaf, freelist = 1, 2, 16
	native := binary.NativeEndian
	for name, test := range map[string]struct {
		kind   uint16 // of the pages that are damaged
		damage func(page []byte) bool
	}{
		"a branch's key above those it leads to": {branch, func(page []byte) bool {
			page[32+native.Uint32(page[32:])] = 0xff // of the second element
			return native.Uint16(page[10:]) > 1
		}},
		"a branch's key below those before it": {branch, func(page []byte) bool {
			clear(page[32+native.Uint32(page[32:]):][:native.Uint32(page[36:])])
			return native.Uint16(page[10:]) > 1
		}},
		"a branch's key without length": {branch, func(page []byte) bool {
			native.PutUint32(page[20:], 0)
			return true
		}},
		"a branch without elements": {branch, func(page []byte) bool {
			native.PutUint16(page[10:], 0)
			return true
		}},
		"a small bucket without the head of its page": {leaf, func(page []byte) bool {
			for i := range int(native.Uint16(page[10:])) {
				e := page[16+16*i:]
				value := e[native.Uint32(e[4:])+native.Uint32(e[8:]):]
				if isBucket := native.Uint32(e) == 1; isBucket && native.Uint64(value) == 0 {
					clear(value[16:32])
					return true
				}
			}
			return false
		}},
		"a leaf of another number": {leaf, func(page []byte) bool {
			native.PutUint64(page, native.Uint64(page)+1)
			return true
		}},
		"a list of free pages of another number": {freelist, func(page []byte) bool {
			native.PutUint64(page, native.Uint64(page)+1)
			return true
		}},
		"a list of free pages that is longer than its page": {freelist, func(page []byte) bool {
			native.PutUint16(page[10:], 0xfffe)
			return true
		}},
		"a list of free pages of another kind": {freelist, func(page []byte) bool {
			native.PutUint16(page[8:], leaf)
			return true
		}},
	} {
		t.Run(name, func(t *testing.T) {
			whole, size := sample(t), os.Getpagesize()
			tried := 0
			for at := 0; at < len(whole); at += size {
				file := bytes.Clone(whole)
				if page := file[at:][:size]; native.Uint16(page[8:]) == test.kind && isInUse(whole, at/size) && test.damage(page) {
					requireRefused(t, file)
					tried++
				}
			}
			require.Positive(t, tried)
		})
	}
}

// Its last pages are free, so nothing that can be read is missing.
func TestOpen_refusesAFileThatEndsBeforeItsLastPage(t *testing.T) {
	dir := t.TempDir()
	log := open(t, dir, nil)
	for n := range 50 {
		eventlogtest.Append(t, log, "other", eventlogtest.Sized(eventlogtest.Entry("a", n), 4000))
	}
	require.NoError(t, log.Drop(t.Context(), "other"))
	var whole []byte
	last := 0
	for n := 0; last == 0 || isInUse(whole, last); n++ { // which pages bbolt uses is random
		require.Less(t, n, 100)
		eventlogtest.Append(t, log, product, eventlogtest.Entry("a", n))
		var err error
		whole, err = os.ReadFile(filepath.Join(dir, boltlog.FileName))
		require.NoError(t, err)
		last = int(newest(whole).pages) - 1
	}
	requireRefused(t, whole[:last*os.Getpagesize()])
}

func requireRefused(t *testing.T, file []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), boltlog.FileName)
	require.NoError(t, os.WriteFile(path, file, 0o600))
	_, err := boltlog.Open(filepath.Dir(path), nil)
	require.ErrorIs(t, err, boltlog.ErrDamaged)
	require.NoError(t, refusal(path, file, err))
}

// state is what the first pages of a file say.
type state struct{ free, pages, transaction uint64 }

// newest returns the state of a file as of its last transaction.
func newest(file []byte) (s state) {
	for _, first := range [][]byte{file, file[os.Getpagesize():]} {
		if transaction := binary.NativeEndian.Uint64(first[64:]); transaction >= s.transaction {
			s = state{binary.NativeEndian.Uint64(first[48:]), binary.NativeEndian.Uint64(first[56:]), transaction}
		}
	}
	return s
}

// isInUse reports whether a page is none of the free ones.
func isInUse(file []byte, page int) bool {
	s, size := newest(file), os.Getpagesize()
	free := file[int(s.free)*size:]
	for i := range int(binary.NativeEndian.Uint16(free[10:])) {
		if binary.NativeEndian.Uint64(free[16+8*i:]) == uint64(page) {
			return false
		}
	}
	return page < int(s.pages)
}
