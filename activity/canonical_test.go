package activity_test

import (
	"regexp"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

func TestCanonicalURL(t *testing.T) {
	for _, c := range []struct{ name, raw, want string }{
		// The contract's own examples.
		{"email address and trailing slash", app + "/users/ada@example.com/", app + "/users/:id"},
		{"slug", app + "/blog/my-first-post", app + "/blog/my-first-post"},

		{"root", app + "/", app + "/"},
		{"root without slash", app, app + "/"},
		{"root without slash, with query", app + "?a=1", app + "/"},
		{"root without slash, with fragment", app + "#top", app + "/"},
		{"trailing slashes", app + "/a//", app + "/a"},
		{"nothing but slashes", app + "///", app + "/"},
		{"doubled slash inside", app + "/a//b", app + "/a//b"},
		{"white space around", " \n https://app.example.com/a\t", app + "/a"},
		{"white space inside", app + "/my page?c", app + "/my%20page"},
		{"control characters", "https://app.exam\x00ple.com/a\r\nb", app + "/ab"},
		{"line separators", "https://app.exam\u2028ple.com/a\u2029b", app + "/ab"},

		{"scheme and host in capitals", "HTTPS://APP.EXAMPLE.COM/Reports", app + "/Reports"},
		{"default port of http", "http://app.example.com:80/a", "http://app.example.com/a"},
		{"default port of https", app + ":443/a", app + "/a"},
		{"default port of wss", "wss://app.example.com:443/a", "wss://app.example.com/a"},
		{"http on the port of https", "http://app.example.com:443/a", "http://app.example.com:443/a"},
		{"port that ends like a default one", "http://localhost:8080/a", "http://localhost:8080/a"},
		{"empty port", app + ":/a", app + "/a"},
		{"IPv6", "http://[2001:DB8::1]/a", "http://[2001:db8::1]/a"},
		{"IPv6 and default port", "https://[::1]:443/a", "https://[::1]/a"},
		{"IPv6 that ends like a default port", "http://[fe80::80]/a", "http://[fe80::80]/a"},
		{"host of digits is no identifier", "http://12345678/a", "http://12345678/a"},
		{"host outside ASCII", "https://BÜCHER.example/a", "https://bücher.example/a"},

		{"user and password", "https://ada:secret@app.example.com/a", app + "/a"},
		{"user only", "https://ada@app.example.com:443/a", app + "/a"},
		{"password behind backslashes", `https:\\ada:secret@app.example.com\a`, app + "/a"},
		{"password behind no slash", "https:ada:secret@app.example.com/a", app + "/a"},
		{"password behind slashes of both kinds", `wss:/\/ada:secret@app.example.com/a`, "wss://app.example.com/a"},
		{"password without a scheme", "//ada:secret@App.Example.com/a", "//app.example.com/a"},
		{"password without a scheme behind backslashes", `\\ada:secret@app.example.com\a`, "//app.example.com/a"},
		{"password with a slash that ends it for no browser", `app://ada:se\cret@host/a`, "app://host/a"},
		{"password in a file's address", "file://ada:secret@host/a", "file://host/a"},
		{"password before an at sign that is encoded", "https://ada:secret%40app.example.com/a", app + "/a"},
		{"password and no host", "https://ada:secret@//bob:secret@app.example.com/a", app + "/a"},
		{"password in an address within", "blob:https://ada:secret@app.example.com/3f2504e0-4f89-11d3-9a0c-0305e82c3301",
			"blob:https://app.example.com/:id"},
		{"password in the source of a page", "view-source:https:/ada:secret@app.example.com/a",
			"view-source:https://app.example.com/a"},
		{"name of a screen that looks like an identifier", "app://screen/404?a", "app://screen/404"},
		{"another address of an app", "app://shop/404", "app://shop/:id"},
		{"backslashes in the path", `https://app.example.com\projects\42`, app + "/projects/:id"},

		{"path parameter", app + "/cart;jsessionid=0A1B2C3D/items;v=1", app + "/cart/items"},
		{"path parameter of the root", app + "/;jsessionid=0A1B2C3D", app + "/"},
		{"path parameter without a value", app + "/a;b;c=d", app + "/a"},
		{"path parameter of an identifier", app + "/orders/42;jsessionid=x.y?a", app + "/orders/:id"},
		{"path parameter that is percent-encoded", app + "/cart%3bjsessionid=0A1B2C3D", app + "/cart"},
		{"path parameter in a hash route", app + "/#/cart;jsessionid=0A1B/items", app + "/#/cart/items"},
		{"path parameter of a path alone", "/cart;jsessionid=0A1B?x", "/cart"},
		{"address behind a path parameter", "x:;y//ada:secret@host/a", "x://host/a"},

		{"at sign in the path is no credential", "https://social.example/@ada/posts", "https://social.example/@ada/posts"},
		{"at sign in the query is no credential", app + "?next=//evil@host", app + "/"},

		{"query", app + "/a?b=c&d=e", app + "/a"},
		{"fragment", app + "/a#b", app + "/a"},
		{"token in the fragment", app + "/cb#access_token=secret/x", app + "/cb"},
		{"exclamation mark is no route", app + "/a#!b", app + "/a"},

		{"hash route with exclamation mark", app + "/#!/orders/42", app + "/#!/orders/:id"},
		{"hash route behind a path", app + "/app/7/#/orders/42/", app + "/app/:id#/orders/:id"},
		{"hash route behind a query", app + "/app?x=1#/orders", app + "/app#/orders"},
		{"hash route with a query and a fragment", app + "/#/orders?a=1#top", app + "/#/orders"},
		{"root hash route", app + "/#/", app + "/#/"},

		{"percent-encoded slug", app + "/caf%C3%A9", app + "/caf%C3%A9"},
		{"percent-encoded email address", app + "/users/ada%40example.com", app + "/users/:id"},
		{"percent-encoded number", app + "/users/%34%32", app + "/users/:id"},
		{"percent-encoded slash is no separator", app + "/files/a%2F42", app + "/files/a%2F42"},
		{"percent-encoded question mark stays", app + "/what%3Fnow", app + "/what%3Fnow"},
		{"broken percent-encoding", app + "/100%/42", app + "/100%/:id"},
		{"path outside ASCII", app + "/日本/ö", app + "/日本/ö"},
		{"placeholder already", app + "/projects/:id", app + "/projects/:id"},

		{"other scheme", "capacitor://localhost/tabs/42?x", "capacitor://localhost/tabs/:id"},
		{"scheme with digits and signs", "web+app2.x-y://Host/a", "web+app2.x-y://host/a"},
		{"no scheme", "app.example.com/projects/42?x", "app.example.com/projects/:id"},
		{"path only", "/projects/42/?x#y", "/projects/:id"},
		{"relative path", "projects/42/", "projects/:id"},
		{"root path", "/", "/"},
		{"protocol-relative", "//app.example.com/42", "//app.example.com/:id"},
		{"about page", "about:blank", "about:blank"},
		{"scheme that is none", "1http://app.example.com/42", "1http://app.example.com/:id"},
		{"empty scheme", "://app/42", "://app/:id"},
		{"empty", "", ""},
		{"blank", " \t\n", ""},
		{"query only", "?a=1", ""},
		{"hash route only", "#/orders/42", "#/orders/:id"},
		{"not a URL at all", "not a URL", "not%20a%20URL"},
	} {
		t.Run(c.name, func(t *testing.T) {
			assert.Equal(t, c.want, activity.CanonicalURL(c.raw))
			assert.Equal(t, c.want, activity.CanonicalURL(c.want), "a canonical URL must stay as it is")
		})
	}
}

func TestCanonicalURL_replacesIdentifiers(t *testing.T) {
	for kind, segments := range map[string][]string{
		"digits": {"0", "7", "42", "007", "2026", "12345678901234567890123456789012345678901234567890"},
		"UUID": {"3f2504e0-4f89-11d3-9a0c-0305e82c3301", "3F2504E0-4F89-11D3-9A0C-0305E82C3301",
			"00000000-0000-0000-0000-000000000000", "3f2504e04f8911d39a0c0305e82c3301"},
		"ULID": {"01ARZ3NDEKTSV4RRFFQ69G5FAV", "01arz3ndektsv4rrffq69g5fav"},
		"token of 16 characters or more": {"abcdefghijklmno1", "V1StGXR8_Z5jdHi6B-myT", "-NsQ1a2b3c4d5e6f7g8h",
			"sXh3kQ9vR2mW7pLt", "dQw4w9WgXcQdQw4w9WgXcQ", "k3j9-x8w2-p1q7-z4m5", "Uakgb_J5m9g-0JDMbcJqL", "IRFa-VaYb2x_abcDE",
			"xTq2Rn-Lw8PaK-Zd4Vc", "20261001T101500Z-8"},
		"token of an odd form": {"ABCD-1234-EFGH-5678", "9f86d081884c7d65.9a2feaa0c55ad015",
			"{550e8400-e29b-41d4-a716-446655440000}", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhZGEifQ.x3Zk9-mTq0aBcDeFgHiJ"},
		"hexadecimal": {"deadbee1", "DEADBEE1", "5f3a2b1c", "507f1f77bcf86cd799439011", "facade12",
			"da39a3ee5e6b4b0d3255bfef95601890afd80709"},
		"email address": {"ada@example.com", "Ada.Lovelace+tag@mail.example.co.uk", "ada%2Btag%40example.com", "用户@例子.测试"},
		"prefix and token": {"cus_9s6XKzkNRiz8i3", "user_42", "sk_live_4eC39HqLyjWDarjtT1zdp7dc",
			"usr_3f2504e0-4f89-11d3-9a0c-0305e82c3301", "evt_01ARZ3NDEKTSV4RRFFQ69G5FAV", "doc_deadbee1",
			"pi_3MtwBwLkdIwHu7ix28a3tqPa", "Invoice_000123", "report_2026-10-01"},
		"date": {"2026-10-01", "2026-1-9", "2026_10_01", "01-10-2026", "20261001", "2026-10-01T10:15:00Z",
			"2026-10-01T10%3A15%3A00Z", "1.10.2026"},
	} {
		for _, segment := range segments {
			t.Run(kind+" "+segment, func(t *testing.T) {
				assert.Equal(t, app+"/things/:id", activity.CanonicalURL(app+"/things/"+segment))
				assert.Equal(t, "/:id/edit", activity.CanonicalURL("/"+segment+"/edit"))
				assert.Equal(t, app+"/#/things/:id", activity.CanonicalURL(app+"/#/things/"+segment))
			})
		}
	}
}

func TestCanonicalURL_keepsWords(t *testing.T) {
	for kind, segments := range map[string][]string{
		"word": {"reports", "Settings", "aVeryLongCamelCaseWordIndeed", "internationalization", "deadbeef",
			"facade", "décor", "a"},
		"slug": {"my-first-post", "terms-and-conditions-of-the-service", "snake_case_slug_of_words", "a-b", "-", "_", "--"},
		"slug with number": {"top-10-tips-for-2026", "5-things-to-know-before-you-go", "how-to-use-2fa-with-your-phone",
			"web3-versus-web2-explained", "2026-goals-and-dreams", "release-notes-of-version-12"},
		"slug with mixed words": {"guide-to-b2b-marketing-strategy", "learn-k8s-in-ten-easy-lessons", "a11y-best-practices",
			"i18n-for-the-impatient", "uploading-mp3-and-mp4-files", "amazon-s3-bucket-settings", "HTML5-and-CSS3-basics",
			"IPv6-migration-guide", "EC2-instances-overview", "OAuth2-Authorization-Code-Flow", "MP3-to-WAV-converter"},
		"version": {"v1", "v2", "V1", "v10", "v1.2.3", "1.2.3", "v1beta1", "v2026", "api_v1", "page_version2"},
		"file name": {"index.html", "report-2026.pdf", "main.4f3c2b1a9d8e7f60.js",
			"3f2504e0-4f89-11d3-9a0c-0305e82c3301.pdf", "42.json", "photo.1.jpg", "logo@2x.png"},
		"word with number": {"step2", "abc123", "h264", "mp3", "3d", "1password", "abc1234"},
		"handle":           {"@ada", "@ada42", "ada@localhost"},
		"punctuation":      {":id", "~", "...", "a,b", "a=b", "(1)", "$42"},
		"short prefixed":   {"tab_a1", "plan_v2", "cus_x1y2"},
	} {
		for _, segment := range segments {
			raw := app + "/things/" + segment
			t.Run(kind+" "+segment, func(t *testing.T) { assert.Equal(t, raw, activity.CanonicalURL(raw)) })
		}
	}
}

func FuzzCanonicalURL(f *testing.F) {
	for _, raw := range []string{
		"https://App.Example.com:443/projects/42/tasks/7?tab=x#top", "https://ada:p@ss@[::1]:443/#!/a/1?b#c", "/a/ ?b",
		"\x00 a/ /", "#/a ?x",
		"https:/\\u:p@h", "//;/u:p@h", "x:;y//u:p@h", "http://:80//u:p@h", "blob:file:///\\u@h;/;x%3b",
		"http:/;/@/:80/#/;x/?",
		"http://x:80:80", "http://x:80:", "http://::", "a@b.c://d", "://", "a://", "%", "http://http://x", "//",
		"\xff://\xff/\xff",
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		got := activity.CanonicalURL(raw)
		require.Equal(t, got, activity.CanonicalURL(got), "not idempotent for %q", raw)
		require.NotContains(t, got, "?")
		require.True(t, utf8.ValidString(got), "%q", got)
		require.NotContains(t, authority(got), "@")
		_, rest, _ := strings.Cut(got, authority(got))
		path, _, _ := strings.Cut(rest, "#")
		require.NotContains(t, path, ";")
		require.False(t, strings.ContainsFunc(got, unicode.IsControl), "%q", got)
		if _, fragment, ok := strings.Cut(got, "#"); ok {
			require.Regexp(t, `^!?/[^#]*$`, fragment)
		}
	})
}

var schemeForm = regexp.MustCompile(`^[A-Za-z][0-9A-Za-z+.-]*:$`)

// authority returns the part between scheme and path.
func authority(url string) string {
	scheme, rest, ok := strings.Cut(url, "//")
	if !ok || scheme != "" && !schemeForm.MatchString(scheme) {
		return ""
	}
	host, _, _ := strings.Cut(rest, "/")
	return host
}
