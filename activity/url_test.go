package activity_test

import (
	"regexp"
	"runtime"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/liveactivity/liveactivity/activity"
)

// Each URL marks what is dropped as ‹…›, and what is redacted as «…».
func TestCleanURL(t *testing.T) {
	const host = "https://app.example.com"
	plain := strings.NewReplacer("‹", "", "›", "", "«", "", "»", "")
	dropped, redacted := regexp.MustCompile(`(?s)‹.*?›`), regexp.MustCompile(`«.*?»`)
	check := func(t *testing.T, marked string) {
		t.Helper()
		want := redacted.ReplaceAllString(dropped.ReplaceAllString(marked, ""), "redacted")
		clean, canonical := activity.CleanURL(plain.Replace(marked))
		assert.Equal(t, want, clean)
		assert.Equal(t, activity.CanonicalURL(want), canonical)
		again, _ := activity.CleanURL(clean)
		assert.Equal(t, clean, again, "a clean URL must stay as it is")
	}
	for _, c := range []struct{ name, url string }{
		{"nothing to hide", host + "/a;v=1/b?c=d&e#f"},
		{"spelling stays", "HTTPS://App.Example.com:443/a b/"},
		{"empty", ""},
		{"white space around", "‹ \n›" + host + "/‹ \t›"},
		{"control characters", "https://app.‹\t›example.com/‹\x00›a‹\r\n›b‹\u0085›"},
		{"line separators", "https://app.‹\u2028›example.com/a‹\u2029›b?c=‹\u2028›d"},
		{"what is not UTF-8", host + "/a‹\xff›b\ufffd"},

		{"password", "https://‹ada:secret@›app.example.com/a?b"},
		{"password with at signs", "https://‹ada:se@cr@et@›app.example.com/a"},
		{"password behind too many slashes", "https:///‹ada:secret@›app.example.com/a"},
		{"password behind backslashes", `https:\\‹ada:secret@›app.example.com/a`},
		{"password behind one slash", "http:/‹ada:secret@›app.example.com/a"},
		{"password behind no slash", "https:‹ada:secret@›app.example.com/a"},
		{"password behind tabs and newlines", "‹\x01›ht‹\t›tps:/‹\n›/‹ada:sec\rret@›app.example.com/a"},
		{"password without a scheme", "//‹ada:secret@›app.example.com/a"},
		{"password without a scheme behind backslashes", `\/‹ada:secret@›app.example.com/a`},
		{"password ended by a question mark", "https://‹ada:secret@›app.example.com?x=@y"},
		{"password ended by a fragment", "https://‹ada:secret@›app.example.com#x@y"},
		{"password, percent-encoded", "https://‹ada%3Asecret%40›app.example.com/a"},
		{"password of a wrapped address", "Blob:https://‹ada:secret@›app.example.com/a"},
		{"at sign in the path", host + "/@ada/posts"},

		{"query", host + "/cb?a=1&code=«s3cret»&state=«s3cret»&b=2"},
		{"first of the query", host + "?token=«s3cret»"},
		{"empty value", host + "/?token=&key"},
		{"value with delimiters", host + "/?token=«s3/c?r=e;t»&b=2#c"},
		{"name in the value", host + "/?q=token&r=code%20x"},
		{"percent-encoded name", host + "/?%74oken=«x»&access%5Ftoken=«y»&%2574oken=«z»"},
		{"names of arrays and objects", host + "/?token[]=«x»&user[password]=«y»&auth.token=«z»&user%5Bsecret%5D=«a»"},
		{"long name", host + "/?" + strings.Repeat("a_", 500) + "token=«x»"},
		{"letters beyond ASCII", host + "/?éToken=«x»&ñandúKey=«y»&%C3%A9Pin=«1»&monkéy=z"},
		{"name encoded over and over", host + "/?%" + strings.Repeat("25", 20) + "74oken=«x»"},
		{"name with a broken escape", host + "/?%zz%5F%74oken=«x»&%&%4=y"},
		{"a percent sign in a name", host + "/?100%=x&100%25=y"},
		{"semicolons between parameters", host + "/?a=1;token=«x»&amp;code=«y»"},
		{"a second question mark", host + "/?a=1?token=«x»"},
		{"name broken by a newline", host + "/?to‹\n›ken=«x»"},

		{"fragment", host + "/cb#access_token=«s3/cret»&token_type=«bearer»&id_token=«x»"},
		{"query of a hash route", host + "/#/cb?code=«s3/cret»&x=1"},
		{"query of a hash route with exclamation mark", host + "/#!/cb?code=«s3cret»"},
		{"exclamation mark before a name", host + "/#!token=«s3cret»"},
		{"path parameter of a hash route", host + "/#/a;jsessionid=«s3cret»/b"},
		{"fragment of a fragment", host + "/#/a#token=«s3/cret»"},
		{"path parameter", host + "/a;jsessionid=«s3cret»/b;v=1;sid=«s3cret»?c"},
		{"path parameter, percent-encoded", host + "/a%3Bjsessionid%3D«s3cret»/b"},
		{"query behind an ampersand", host + "/a&token=«s3cret»"},
		{"no address at all", "token=«s3cret»"},

		{"address in a value",
			host + "/login?next=https%3A%2F%2Fa.example%2Fcb%3Fcode%3D«s3cret»%26x%3D1%26state%3D«s3cret»&y=2"},
		{"address in a value in a value", host + "/?n=%2Fa%3Fn%3D%252Fb%253Ftoken%253D«s3cret»%2526x%253D1"},
		{"address in a value in a value in a value",
			host + "/?n=%2Fa%3Fn%3D%252Fb%253Fn%253D%25252Fc%25253Ftoken%25253D«s3cret»%252526x"},
		{"password of an address in a value", host + "/login?next=https://‹ada:se@cret@›a.example/b@c?x=1&y=d@e"},
		{"password of an address in a value, percent-encoded",
			host + "/?n=https%3A%2F%2F‹ada%3Ase;c=ret%40›a.example%2Fb%40c&y=2"},
		{"password of an address in a value in a value",
			host + "/?n=%2Fa%3Fn%3Dhttps%253a%252F%252f‹ada%253Asecret%2540›a.example%2526x"},
		{"password of an address in the path", host + "/web/2026/https://‹ada:secret@›a.example/b"},
		{"password of an address in the fragment", host + "/#https://‹ada:secret@›a.example"},
		{"passwords of addresses one in the other", host + "/https://‹a:b@›http://‹c:d@›e"},
		{"at sign behind slashes that follow no colon", host + "/a//@ada/b:/@ada///@ada"},
		{"at sign behind three slashes", host + "/file:///@ada"},
		{"value with delimiters that are encoded", host + "/?token=«a%26b%3Dc%23d»&x=1"},
	} {
		t.Run(c.name, func(t *testing.T) { check(t, c.url) })
	}
	for _, secret := range strings.Fields(`Access-Token API_KEY apikey X-Amz-Signature PHPSESSID client-_secret accessToken
		id_token key secret password sig signature session sid jwt refresh_token
		SAMLResponse RelayState otp user_pin resetPasswd auth.header OAuthNonce XMLTicketID my-assertion
		apitoken LoginToken appsecret newpassword userpasswd passcode sessid
		password2 IDToken1 oauth2State my_apikey SAMLart code39`) {
		check(t, host+"/?a=1&"+secret+"=«s3cret»&b=2")
	}
	for _, open := range strings.Fields(`pinned author ticketing SAMPLE passage stateless Keys codec
		tokens keyword zipcode statement monkey sidebar`) {
		check(t, host+"/?a=1&"+open+"=x&b=2")
	}
}

func TestCleanURL_cutsAfter2KiB(t *testing.T) {
	const limit, h = 2 << 10, "https://h/"
	long := strings.Repeat("x", 1<<20)
	for _, c := range []struct{ name, raw, clean, canonical string }{
		{"path", h + long, h + long[:limit-10], h + long[:limit-10]},
		{"query", h + "a?" + long, h + "a?" + long[:limit-12], h + "a"},
		{"hash route behind a query", h + "a?" + long[:limit] + "#/orders/7", h + "a?" + long[:limit-12],
			h + "a#/orders/:id"},
		{"credential", h + "a?token=" + long[:limit] + "&b=1", h + "a?token=redacted&b=1", h + "a"},
		{"credential that never ends", h + "a?token=" + long, h + "a?token=redacted", h + "a"},
		{"password", "https://u:" + long[:limit] + "@h/a", h + "a", h + "a"},
		{"password that never ends", "https://u:" + long, "https://", "https:///"},
		{"password that was cut", "https://u:" + long[:3*limit], "https://", "https:///"},
		{"password that ends too late", "https://u:" + long + "@h/", "https://", "https:///"},
		{"white space before", strings.Repeat(" ", 1<<20) + h + "a", h + "a", h + "a"},
		{"control characters inside", h + strings.Repeat("\t", 1<<20) + "a", h + "a", h + "a"},
		{"host that ends too late", "https://" + long[:limit] + "/a@b", "https://", "https:///"},
		{"character at the cut", h + strings.Repeat("日", 1000), h + strings.Repeat("日", 679), h + strings.Repeat("日", 679)},
		{"white space at the cut", h + long[:limit-12] + " b c", h + long[:limit-12] + " b", h},
		{"scheme and host up to the cut", long[:limit-100] + "://" + long[:97] + "/a/b", long[:limit-100] + "://" + long[:97],
			long[:limit-100] + ":"},
		{"many identifiers", "https://h" + strings.Repeat("/1", limit), "https://h" + strings.Repeat("/1", (limit-9)/2) + "/",
			"https://h" + strings.Repeat("/:id", (limit-9)/4)},
		{"credential at the cut", h + "?" + long[:limit-15] + "&token=s3cret", h + "?" + long[:limit-15] + "&tok", h},
		{"value at the cut", h + "?" + long[:limit-19] + "&token=s3cret", h + "?" + long[:limit-19] + "&token=r", h},
	} {
		t.Run(c.name, func(t *testing.T) {
			clean, canonical := activity.CleanURL(c.raw)
			assert.Equal(t, c.clean, clean)
			assert.Equal(t, c.canonical, canonical)
			again, _ := activity.CleanURL(clean)
			assert.Equal(t, clean, again)
		})
	}
}

// Cleaning a URL of a MiB allocates less than 512 KiB, so the result does not keep a request in memory.
func TestCleanURL_needsLittleMemory(t *testing.T) {
	for name, raw := range map[string]string{
		"text":        "https://h/" + strings.Repeat("x", 1<<20),
		"delimiters":  "https://h/?" + strings.Repeat("&", 1<<20),
		"credentials": "https://h/?" + strings.Repeat("token=x&", 1<<17),
		"controls":    strings.Repeat("\t", 1<<20),
		"invalid":     strings.Repeat("\xff", 1<<20),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			activity.CleanURL(raw)
			runtime.ReadMemStats(&after)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(512<<10))
		})
	}
}

func TestNewAction_cleansItsURL(t *testing.T) {
	a := activity.NewAction(activity.TypePageview, activity.Target{},
		"https://ada:secret@app.example.com/cart;jsessionid=s3cret?token=s3cret")
	assert.Equal(t, "https://app.example.com/cart;jsessionid=redacted?token=redacted", a.RawURL)
	assert.Equal(t, "https://app.example.com/cart", a.CanonicalURL)
	assert.Equal(t, "User landed on the cart page", a.Description)
}

func FuzzCleanURL(f *testing.F) {
	for _, raw := range []string{
		"https://u:p@h/a;sid=1?token=x&y#/z?code=1", "https:\\\\u:p@h", "%3D%253b=;?#", "//u%40h?x",
		"https://h/?n=https://u:p@h/@", "h://h?%3A%2f%252Fu%2540@/@", "blob:x", strings.Repeat("https://h/?token=1&", 150),
	} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		clean, canonical := activity.CleanURL(raw)
		again, second := activity.CleanURL(clean)
		require.Equal(t, clean, again)
		if cut := len(raw) > 200 && (len(clean) >= 2<<10-utf8.UTFMax || strings.ContainsFunc(raw, unicode.IsSpace)); !cut {
			require.Equal(t, canonical, second)
		}
		require.Equal(t, canonical, activity.CanonicalURL(canonical))
		require.LessOrEqual(t, max(len(clean), len(canonical)), 2<<10)
		require.True(t, utf8.ValidString(clean))
		require.False(t, strings.ContainsFunc(clean, unicode.IsControl), "%q", clean)
		require.NotContains(t, authority(canonical), "@")
	})
}
