package origin_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/liveactivity/liveactivity/internal/origin"
)

func TestIsPattern(t *testing.T) {
	for pattern, want := range map[string]bool{
		"https://app.acme.example":      true,
		"https://app.acme.example:8443": true,
		"https://xn--e1afmkfd.xn--p1ai": true,
		"http://localhost:3000":         true,
		"http://[::1]:3000":             true,
		"https://*.acme.example":        true,
		"https://*.acme.example:8443":   true,
		"null":                          true,
		"capacitor://localhost":         true,
		"ionic://localhost":             true,
		"app://obsidian.md":             true,
		"chrome-extension://abcdefgh":   true,
		"file://":                       true,

		"":                                false,
		"*":                               false,
		"https://*":                       false,
		"https://*.":                      false,
		"https://*acme.example":           false,
		"https://app.*.example":           false,
		"https://*.*.example":             false,
		"*://app.acme.example":            false,
		"*.acme.example":                  false,
		"capacitor://*.localhost":         false,
		"app.acme.example":                false,
		"app.acme.example:443":            false,
		"https://app.acme.example/":       false,
		"https://app.acme.example/app":    false,
		"https://app.acme.example?x":      false,
		"https://app.acme.example#x":      false,
		"https://u:p@app.acme.example":    false,
		"https://App.acme.example":        false,
		"https://münchen.example":         false, // browsers send xn--mnchen-3ya.example
		"https://*.münchen.example":       false,
		"HTTPS://app.acme.example":        false,
		"https://app.acme.example:x":      false,
		"https:\\\\app.acme.example":      false,
		" https://app.acme.example":       false,
		"https://app.acme.example ":       false,
		"https://a.example https://b.com": false,
		"file://host":                     false,
		"capacitor://":                    false,
		"capacitor://localhost/":          false,
		"1app://localhost":                false,
		"://localhost":                    false,
		"Null":                            false,
	} {
		assert.Equal(t, want, origin.IsPattern(pattern), "%q", pattern)
	}
}

func TestIsWeb_takesNoPatterns(t *testing.T) {
	assert.True(t, origin.IsWeb("https://app.acme.example:8443"))
	for _, s := range []string{"https://*.acme.example", "null", "capacitor://localhost", "file://",
		"ftp://a.example", ""} {
		assert.False(t, origin.IsWeb(s), "%q", s)
	}
}

func TestIsHost(t *testing.T) {
	for _, host := range []string{"acme.example", "*.acme.example", "localhost"} {
		assert.True(t, origin.IsHost(host), "%q", host)
	}
	for _, s := range []string{"", "*", "*.", "https://acme.example", "acme.example/x", "acme.example:443", "Acme.example",
		" acme.example", "a.*.example"} {
		assert.False(t, origin.IsHost(s), "%q", s)
	}
}

func TestHosts_areOriginsOfPages(t *testing.T) {
	patterns := []string{"https://app.acme.example:8443", "https://*.acme.test", "null", "file://",
		"capacitor://localhost", "http://localhost"}
	assert.Equal(t, []string{"app.acme.example", "*.acme.test", "localhost"}, origin.Hosts(patterns))
}

func TestAllows(t *testing.T) {
	list := []string{"https://acme.example", "https://*.acme.test", "http://*.acme.test:3000", "null",
		"capacitor://localhost", "https://port.example:443", "https://*.port.example:443", "http://port.example:80"}
	for o, want := range map[string]bool{
		"https://acme.example":       true,
		"HTTPS://ACME.example":       true,
		"https://app.acme.test":      true,
		"https://a.b.acme.test":      true,
		"http://app.acme.test:3000":  true,
		"null":                       true,
		"capacitor://localhost":      true,
		"https://port.example":       true,
		"https://port.example:443":   true,
		"https://www.port.example":   true,
		"http://port.example":        true,
		"https://acme.example:443":   true,
		"":                           false,
		"http://port.example:443":    false,
		"https://port.example:80":    false,
		"capacitor://localhost:443":  false,
		"http://acme.example":        false,
		"https://acme.example:8443":  false,
		"https://app.acme.example":   false,
		"https://acme.example.evil":  false,
		"https://acme.test":          false,
		"https://.acme.test":         false,
		"https://evilacme.test":      false,
		"https://acme.test.evil":     false,
		"https://app.acme.test:3000": false,
		"http://app.acme.test":       false,
		"http://app.acme.test:30001": false,
		"ionic://localhost":          false,
		"capacitor://localhost:80":   false,

		"https://evil.example/.acme.test":    false,
		"https://evil.example?.acme.test":    false,
		"https://evil.example#.acme.test":    false,
		"https://evil.example\\.acme.test":   false,
		"https://u:p@app.acme.test":          false,
		"https://evil.example:443.acme.test": false,
	} {
		assert.Equal(t, want, origin.Allows(list, o), "%q", o)
	}
	assert.False(t, origin.Allows(nil, "https://acme.example"))
}

func TestBase_takesURLsThatPathsCanBeAddedTo(t *testing.T) {
	for _, s := range []string{"https://live.example.com", "http://live.example.com:8080/path/", "http://[::1]:65535",
		"http://[fe80::1%25eth0]:1", "https://bücher.example"} {
		u, ok := origin.Base(s)
		assert.True(t, ok, s)
		assert.NotEmpty(t, u.Hostname(), s)
	}
	for _, s := range []string{"", "live.example.com", "//live.example.com", "https:live.example.com", "https://",
		"https://:80", "ftp://live.example.com", "https://u:p@live.example.com",
		"https://live.example.com?x", "https://live.example.com?", "https://live.example.com/#x", "https://live.example.com:",
		"https://live.example.com:0", "https://live.example.com:65536",
		"https://[::1]:", "https://live example.com"} {
		_, ok := origin.Base(s)
		assert.False(t, ok, s)
	}
}

func TestIsLoopback_goesByTheNameOrAddressAlone(t *testing.T) {
	for host, want := range map[string]bool{
		"localhost": true, "LocalHost:8080": true, "127.0.0.1": true, "127.1.2.3:80": true, "::1": true, "[::1]": true,
		"[::1]:80": true, "::ffff:127.0.0.1": true,
		"": false, "10.0.0.1": false, "localhost.evil.example": false, "127.0.0.1.evil.example:80": false,
		"evillocalhost": false, "shop.localhost": false, "localhost@evil.example": false,
	} {
		assert.Equal(t, want, origin.IsLoopback(host), "%q", host)
	}
}
