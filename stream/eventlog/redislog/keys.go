package redislog

import "strings"

// keys are the names of a product's keys in Redis; see the package comment. All of them carry
// the same hash tag, so that a cluster keeps them on one node. The scripts make the other names
// from base. Scripts that change a product name never, too: while its slot moves to another
// node, a cluster refuses a script with a key that is missing before it has begun.
type keys struct {
	base  string // prefix of all of them
	meta  string
	log   string
	seen  string
	names string
	docs  string
	acts  string
	never string // does not exist
}

// keysOf returns the keys of a product under a prefix, which has no braces.
func keysOf(prefix, productID string) keys {
	base := prefix + ":{p:" + tagEscaper.Replace(productID) + "}:"
	return keys{base: base, meta: base + "meta", log: base + "log", seen: base + "seen", names: base + "names",
		docs: base + "docs", acts: base + "acts", never: base + "never"}
}

// tagEscaper keeps braces out of hash tags, so that every id has its own.
var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

func (k keys) document(name string) string { return k.base + "doc:" + name }
func (k keys) user(id string) string       { return k.base + "user:" + id }
func (k keys) held(name string) string     { return k.base + "held:" + name }

// channel is where the newest ID of a product is published, for all products under the prefix.
func channel(prefix string) string { return prefix + ":changed" }
