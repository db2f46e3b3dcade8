package redislog

import "strings"

// keys are the names of a product's keys in Redis; see the package comment. All of them carry
// the same hash tag, so that a cluster keeps them on one node. The scripts derive the other
// names from base. Scripts that change a product also name the key never, which is missing:
// while the product's slot moves to another node, a cluster refuses such a script before it has
// begun.
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
