package documenttest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity/document"
)

// model is the simplest possible store.
type model map[string]document.Document

// conflicts reports whether one of the documents is not at its change's version.
func (m model) conflicts(changes []document.Change) bool {
	return slices.ContainsFunc(changes, func(c document.Change) bool { return m[c.Name].Version != c.Prev })
}

func (m model) apply(changes []document.Change, version document.Version) {
	for _, c := range changes {
		switch c.Op {
		case document.OpPut:
			m[c.Name] = document.Document{Name: c.Name, Value: c.Value, Version: version}
		case document.OpDelete:
			delete(m, c.Name)
		}
	}
}

func (m model) list(prefix, after string, limit int) []document.Document {
	var docs []document.Document
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if strings.HasPrefix(name, prefix) && name > after && len(docs) < limit {
			docs = append(docs, m[name])
		}
	}
	return docs
}

// modelNames are few, so that they are used again and again.
var modelNames = []string{"a", "a/", "a/1", "a/2", "a0", "b", "b/1", "b\x00", "\xff"}

// modelTests make random changes, and require that the store and the model
// agree after each.
func modelTests() (tests []test) {
	for seed := range uint64(6) {
		tests = append(tests, test{name: fmt.Sprint("seed ", seed), run: func(f fixture) {
			r := roulette{Rand: rand.New(rand.NewPCG(seed, 0)), model: model{}}
			for range 80 {
				r.step(f)
			}
		}})
	}
	return tests
}

// roulette makes random choices.
type roulette struct {
	*rand.Rand
	model
	past []document.Document // documents as they were at some time
	last document.Version
}

func (r *roulette) name() string { return modelNames[r.IntN(len(modelNames))] }

func (r *roulette) step(f fixture) {
	changes := make([]document.Change, 1+r.IntN(3))
	for i, at := range r.Perm(len(modelNames))[:len(changes)] {
		changes[i] = r.change(modelNames[at])
	}
	if r.conflicts(changes) {
		in := f.conflict(changes...)
		at := slices.IndexFunc(changes, func(c document.Change) bool { return c.Name == in })
		require.GreaterOrEqual(f, at, 0, "%q is not among the changes", in)
		require.NotEqual(f, r.model[in].Version, changes[at].Prev, "%q is not in the way of %v", in, changes)
	} else {
		version := f.write(changes...)
		if slices.ContainsFunc(changes, func(c document.Change) bool { return c.Op == document.OpPut }) {
			require.Greater(f, version, r.last)
			r.last = version
		}
		r.apply(changes, version)
		r.past = slices.AppendSeq(r.past, maps.Values(r.model))
	}
	require.Equal(f, items(r.list("", "", 100)), items(f.all()), "after %v", changes)
	prefix, after, limit := r.name()[:1], r.name(), r.IntN(4)
	require.Equal(f, items(r.list(prefix, after, limit)), items(f.list(prefix, after, limit)), "prefix %q after %q",
		prefix, after)
	for i, d := range f.get(modelNames...) {
		want := r.model[modelNames[i]]
		require.Equal(f, item{modelNames[i], string(want.Value), want.Version}, items([]document.Document{d})[0])
	}
}

// change returns a change to the document; one in eight names a stale version.
func (r *roulette) change(name string) document.Change {
	d := r.model[name]
	d.Name = name
	if len(r.past) > 0 && r.IntN(8) == 0 {
		d.Version = r.past[r.IntN(len(r.past))].Version
	}
	ttl := []time.Duration{0, time.Minute, time.Hour}[r.IntN(3)]
	kinds := []document.Change{document.Put(d, fmt.Append(nil, r.IntN(1000)), ttl), document.Check(d),
		document.Delete(d), document.Touch(d, ttl)}
	if !d.Exists() {
		kinds = kinds[:2]
	}
	return kinds[r.IntN(len(kinds))]
}
