package redislog

import "strings"

// keys is the beginning of the names of a product's keys in Redis; see the package comment. It has
// the hash tag, so that a cluster keeps all of them on one node.
type keys string

// keysOf returns the beginning of a product's keys under a prefix, which has no braces.
func keysOf(prefix, productID string) keys {
	return keys(prefix + ":{p:" + tagEscaper.Replace(productID) + "}:")
}

// tagEscaper keeps braces out of hash tags, so that every id has its own.
var tagEscaper = strings.NewReplacer("%", "%25", "{", "%7B", "}", "%7D")

// of returns the key of that name.
func (k keys) of(name string) string { return string(k) + name }

// changed returns the keys that scripts which change the product get; they derive the other names.
// No key has the name never: while the product's slot moves to another node, a cluster therefore
// refuses such a script before it has begun.
func (k keys) changed() []string {
	return []string{k.of("meta"), k.of("log"), k.of("seen"), k.of("names"), k.of("docs"), k.of("acts"), k.of("never")}
}

// channel is where the newest ID of a product is published, for all products under the prefix.
func channel(prefix string) string { return prefix + ":changed" }
