package weburl_test

import (
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fireonce/fireonce/internal/weburl"
)

func TestParse(t *testing.T) {
	for in, want := range map[string]string{
		"https://example.com":                 "https://example.com/",
		"HTTPS://Example.COM:443/a?b=c":       "https://example.com/a?b=c",
		"Http://EXAMPLE.com/A?B":              "http://example.com/A?B",
		"http://example.com:80/":              "http://example.com/",
		"http://example.com:0443/":            "http://example.com:443/",
		"http://example.com:/":                "http://example.com/",
		"https://[2606:4700:0::1111]:8443/":   "https://[2606:4700::1111]:8443/",
		"http://127.0.0.1:8080/x":             "http://127.0.0.1:8080/x",
		"http://my_service.internal/x":        "http://my_service.internal/x",
		"http://example.com./":                "http://example.com./",
		"https://r3---sn-4g5e.example/":       "https://r3---sn-4g5e.example/",
		"https://example.com?":                "https://example.com/?",
		"https://example.com??":               "https://example.com/??",
		"https://example.com/../a/./b//c":     "https://example.com/../a/./b//c",
		"https://example.com//evil.example/x": "https://example.com//evil.example/x",
		"https://example.com/a@b:c/;d=1,2!":   "https://example.com/a@b:c/;d=1,2!",
		"https://example.com/~u/a+b?c+d=e'f":  "https://example.com/~u/a+b?c+d=e'f",
		"https://example.com/?u=https://b/c?": "https://example.com/?u=https://b/c?",

		// What RFC 3986 does not allow in a path or a query.
		"https://example.com/?filter[name]=a&b[]=c":   "https://example.com/?filter%5Bname%5D=a&b%5B%5D=c",
		"https://example.com/?a=1|2|3":                "https://example.com/?a=1%7C2%7C3",
		`https://example.com/?q={"a":[1,"ü"]}`:        "https://example.com/?q=%7B%22a%22:%5B1,%22%C3%BC%22%5D%7D",
		"https://example.com/{id}/[x]/a|b^c`d?e^f`g":  "https://example.com/%7Bid%7D/%5Bx%5D/a%7Cb%5Ec%60d?e%5Ef%60g",
		`https://example.com/"a"?<b>=c`:               "https://example.com/%22a%22?%3Cb%3E=c",
		"https://example.com/a%2Fb%20c?q=%zz":         "https://example.com/a%2Fb%20c?q=%25zz",
		"https://example.com/a%2Fb/{c}":               "https://example.com/a%2Fb/%7Bc%7D",
		"https://example.com/100%?rate=5%&x=%4":       "https://example.com/100%25?rate=5%25&x=%254",
		"https://example.com/%e3%81%82?%C3%bc":        "https://example.com/%e3%81%82?%C3%bc",
		"https://example.com/a%5Bb?c%7Cd":             "https://example.com/a%5Bb?c%7Cd",
		"https://example.com/größe?q=ü&ключ=значение": "https://example.com/gr%C3%B6%C3%9Fe?q=%C3%BC&%D0%BA%D0%BB%D1%8E%D1%87=%D0%B7%D0%BD%D0%B0%D1%87%D0%B5%D0%BD%D0%B8%D0%B5",
		"https://example.com/a\u200cb\u200d":          "https://example.com/a%E2%80%8Cb%E2%80%8D",
		"https://example.com/e\u0301":                 "https://example.com/e%CC%81", // not NFC: as it was typed

		// Hosts in other forms of one name.
		"https://BÜCHER.example/":             "https://xn--bcher-kva.example/",
		"https://bu\u0308cher.example/":       "https://xn--bcher-kva.example/",
		"https://xn--BCHER-kva.EXAMPLE/":      "https://xn--bcher-kva.example/",
		"https://b%C3%BCcher.example/":        "https://xn--bcher-kva.example/",
		"https://bücher。example/":             "https://xn--bcher-kva.example/",
		"https://ｂüｃｈｅｒ．ｅｘａｍｐｌｅ/":             "https://xn--bcher-kva.example/",
		"https://b\u00adücher.example/":       "https://xn--bcher-kva.example/",
		"https://bücher.example.:8443/":       "https://xn--bcher-kva.example.:8443/",
		"https://mein_dienst.bücher.example/": "https://mein_dienst.xn--bcher-kva.example/",
		"https://straße.example/":             "https://xn--strae-oqa.example/",
		"http://１２７.０.０.１:8080/":              "http://127.0.0.1:8080/",
		"https://İstanbul.example/":           "https://xn--istanbul-o0e.example/", // and not istanbul.example
		"https://\u212aelvin.example/":        "https://kelvin.example/",
		"https://аpple.example/":              "https://xn--pple-43d.example/", // Cyrillic а: scripts may mix
		"https://日本語αб.example/":              "https://xn--mxa0x841wncbk91h.example/",
	} {
		u, err := weburl.Parse(in)
		if err != nil || u.String() != want {
			t.Errorf("%s: %v, %v; want %s", in, u, err, want)
		}
	}
}

// TestScripts has hosts and paths of many scripts, each with its A-labels: those of IANA's test
// domains (https://www.iana.org/domains/reserved), or as Python's codec has them.
func TestScripts(t *testing.T) {
	for script, c := range map[string][2]string{
		"Arabic":            {"http://مثال.إختبار/صفحة?س=١", "xn--mgbh0fb.xn--kgbechtv"},
		"Persian":           {"http://مثال.آزمایشی/می\u200cخواهم", "xn--mgbh0fb.xn--hgbk6aj7f53bba"},
		"Chinese":           {"http://例子.测试/页面?查询=值", "xn--fsqu00a.xn--0zwm56d"},
		"Chinese, old form": {"http://例子.測試/首頁", "xn--fsqu00a.xn--g6w251d"},
		"Russian":           {"http://пример.испытание/Страница", "xn--e1afmkfd.xn--80akhbyknj4f"},
		"Hindi":             {"http://उदाहरण.परीक्षा/मुख्य_पृष्ठ", "xn--p1b6ci4b4b3a.xn--11b5bs3a9aj6g"},
		"Greek":             {"http://παράδειγμα.δοκιμή/Σελίδα?ς=ς", "xn--hxajbheg2az3al.xn--jxalpdlp"},
		"Korean":            {"http://실례.테스트/대문", "xn--9n2bp8q.xn--9t4b11yi5a"},
		"Yiddish":           {"http://בײַשפּיל.טעסט/הויפט_זײַט", "xn--fdbk5d8ap9b8a8d.xn--deba0ad"},
		"Japanese":          {"http://例え.テスト/ページ?名=値", "xn--r8jz45g.xn--zckzah"},
		"Tamil":             {"http://உதாரணம்.பரிட்சை/முதற்பக்கம்", "xn--zkc6cc5bi7f6e.xn--hlcj6aya9esc7a"},
		"Hebrew":            {"http://דוגמה.example/עמוד", "xn--6dbbec0c.example"},
		"Thai":              {"http://ตัวอย่าง.example/หน้า", "xn--72c1a1bt4awk9o.example"},
		"Georgian":          {"http://მაგალითი.example/გვერდი", "xn--lodafveble.example"},
		"Amharic":           {"http://ምሳሌ.example/ገጽ", "xn--mxd7a1d.example"},
		"Armenian":          {"http://օրինակ.example/էջ", "xn--y9atn0a2c3a.example"},
		"Bengali":           {"http://উদাহরণ.example/পাতা", "xn--d5b6ci4b4b3a.example"},
		"Vietnamese":        {"http://ví-dụ.example/trang-chủ", "xn--v-d-rma6749a.example"},
		"Turkish":           {"http://örnek.example/İstanbul", "xn--rnek-4qa.example"},
		"German":            {"http://bücher.example/größe", "xn--bcher-kva.example"},
		"Khmer":             {"http://ឧទាហរណ៍.example/ទំព័រ", "xn--w2ef1ax7a5fyh.example"},
		"Emoji":             {"http://💩.example/🦄?👩\u200d🚀=❤\ufe0f", "xn--ls8h.example"},
		"Emoji, i❤":         {"http://i❤.example/", "xn--i-7iq.example"},
	} {
		u, err := weburl.Parse(c[0])
		if err != nil {
			t.Errorf("%s: %v", script, err)
			continue
		}
		if u.Host != c[1] || !printable(u.String()) {
			t.Errorf("%s: %s, want the host %s", script, u, c[1])
		}
		typed, err := url.Parse(c[0])
		if err != nil {
			t.Fatal(err)
		}
		if u.Path != "/"+strings.TrimPrefix(typed.Path, "/") || u.Query().Encode() != typed.Query().Encode() {
			t.Errorf("%s: the receiver reads %q and %v", script, u.Path, u.Query())
		}
		again, err := weburl.Parse(u.String())
		if err != nil || again.String() != u.String() {
			t.Errorf("%s: %s parses to %v, %v", script, u, again, err)
		}
	}
}

// TestRefused has what cannot be sent, each with words that the message has.
func TestRefused(t *testing.T) {
	for bad, words := range map[string]string{
		"":            "empty",
		"example.com": "http://", "//example.com/": "http://", "ftp://example.com/": "http://", "https:example.com": "http://", "file:///etc/passwd": "http://",
		"javascript:alert(1)": "http://", "\ufeffhttps://example.com/": "http://", "https:/example.com/": "http://",
		"https://": "name a host", "https:///x": "name a host", "https://?x": "name a host", "https://:80/": "name a host",
		"https://user@example.com/": "user info", "https://user:secret-pass@example.com/": "user info", "https://ü@bücher.example/": "user info",
		"https://example.com/#": "fragment", "https://example.com/#secret": "%23", "https://example.com#a": "fragment",
		"https://example.com:0/": "port", "https://example.com:65536/": "port", "https://example.com:-1/": "port", "https://example.com:http/": "port",
		"https://example.com:+1/": "port", "https://example.com:８０/": "port", "https://a:1:2/": "colon", "https://2001:db8::1/": "brackets",
		"https://exa mple.com/": "U+0020", "https://example.com/a b": "%20", "https://example.com/ページ\u3000": "%E3%80%80", "https://example.com/\u00a0": "U+00A0",
		"https://example.com/\u2028": "U+2028", "https://example.com/a\tb": "U+0009", "https://example.com/\r\nX: y": "U+000D", "https://example.com/\x00": "U+0000",
		"https://example.com/\u0085": "U+0085", "https://example.com/\x7f": "U+007F", "https://example.com/\ufffe": "U+FFFE", "https://example.com/\ufdd0": "U+FDD0",
		"https://example.com\\@evil/": "backslash", `https://example.com/?a\b`: "%5C", "https://example.com/\xff": "UTF-8", "https://example.com/\ufffd": "U+FFFD",
		"https://[::1%25eth0]/": "IPv6", "https://[::1/": "brackets", "https://[127.0.0.1]/": "IPv6", "https://[::1]x/": "brackets", "https://[bücher]/": "IPv6",
		"https://.example.com/": "empty part", "https://a..b/": "empty part", "https://./": "empty part", "https://ä..b/": "empty part",
		"https://exa$mple.com/": "'$'", "https://a<b/": "'<'", "https://{{run}}.example/": "'{'", "https://%zz/": "%", "https://a%00b/": `'\x00'`, "https://a%2fb/": "'/'",
		"https://a／b/": "'/'", "https://℀.example/": "'/'", "https://a＠b/": "'@'", "https://a＃b/": "'#'", "https://a：80/": "':'", "https://a？b/": "'?'",
		"https://xn--\u00e4/": "part 1", "https://a.xn--zzzzzz99999999.b/": "part 2", "https://xn--a.example/": "part 1", "https://xn--.example/": "empty part",
		"https://a.\u0301b.example/": "part 2", "https://a\u200db.example/": "part 1", "https://a\u200eb.example/": "U+200E", "https://a\u202eb.example/": "U+202E",
		"https://0אב.example/": "part 1", "https://אa.example/": "part 1", "https://3com.אבג/": "RFC 5893", "https://a\u2135b.example/": "RFC 5893", "https://\ue000.example/": "U+E000",
		"https://1234/": "number", "https://127.1/": "number", "https://0x7f.0.0.0x1/": "number", "https://a.b.07/": "number", "https://256.1.1.1/": "number", "https://１２３４/": "number",
		"https://" + strings.Repeat("a", 64) + ".com/": "63", "https://" + strings.Repeat("ü", 60) + ".com/": "63", "https://" + strings.Repeat("a.", 130) + "com/": "253",
		"https://example.com/" + strings.Repeat("a", 2048): "2048", "https://example.com/" + strings.Repeat("ä", 600): "2048",
	} {
		u, err := weburl.Parse(bad)
		switch {
		case err == nil:
			t.Errorf("%q gives %s", bad, u)
		case !strings.Contains(err.Error(), words) || !strings.HasPrefix(err.Error(), "the ") && !strings.HasPrefix(err.Error(), "part "):
			t.Errorf("%q: %v, without %q", bad, err, words)
		case strings.Contains(err.Error(), "secret") && !strings.Contains(err.Error(), "put a secret"):
			t.Errorf("%q: the error quotes it: %v", bad, err)
		}
	}
}

func TestParsePage(t *testing.T) {
	for in, want := range map[string]string{
		"https://bücher.example/a#Über uns{1}":             "",
		"https://bücher.example/a#Über-uns{1}":             "https://xn--bcher-kva.example/a#%C3%9Cber-uns%7B1%7D",
		"HTTPS://example.com#:~:text=a,b":                  "https://example.com/#:~:text=a,b",
		"https://example.com/#a#b%":                        "https://example.com/#a%23b%25",
		"https://example.com/?a=b":                         "https://example.com/?a=b",
		"https://example.com/#" + strings.Repeat("ä", 400): "",
		"example.com#a":                                    "",
	} {
		u, err := weburl.ParsePage(in)
		if want == "" && err == nil || want != "" && (err != nil || u.String() != want) {
			t.Errorf("%s: %v, %v; want %s", in, u, err, want)
		}
	}
}

func TestEscapeValue(t *testing.T) {
	for in, want := range map[string]string{
		"2026-03-29T00:59:00+01:00": "2026-03-29T00:59:00%2B01:00", "America/New_York": "America%2FNew_York", "g2:a.b": "g2:a.b", "a%2F&=?#": "a%252F%26%3D%3F%23",
	} {
		got := weburl.EscapeValue(in)
		plain, err := url.QueryUnescape(got)
		if got != want || err != nil || plain != in {
			t.Errorf("%s: %s, %s, %v", in, got, plain, err)
		}
	}
}

func TestAfterAuthority(t *testing.T) {
	for in, before := range map[string]string{
		"https://a.b:1/c?d": "https://a.b:1", "https://a?b": "https://a", "https://a#b": "https://a", "https://a": "https://a", "a/b": "a/b", "": "",
		"https://{{run}}@a/b": "https://{{run}}@a", "{{run}}://a/b": "{{run}}://a",
	} {
		if got := in[:weburl.AfterAuthority(in)]; got != before {
			t.Errorf("%s: %s, want %s", in, got, before)
		}
	}
}

func printable(s string) bool {
	return strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

// FuzzParse holds that a normal form is ASCII, its own normal form, fit for a request line, and
// has a host that net/url finds at the same place.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		"https://Example.com:443/ä?b=c", "http://[::1]:80/", "http://a/%2f%zz", "http://a/%2f{b}?[c]|%", "https://例え.テスト/ページ?", "http://a／b/", "http://１２７.１/", "http://a?b/c@d",
		"http://b%C3%BCcher/", "http://xn--bcher-kva./a;b", "http://ß.0x1.é", "http://a:80:90/",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		u, err := weburl.Parse(raw)
		if err != nil {
			if !utf8.ValidString(err.Error()) {
				t.Fatalf("%q: %q", raw, err)
			}
			return
		}
		text := u.String()
		if !printable(text) || !printable(u.RequestURI()+u.Host) || len(text) > weburl.Max {
			t.Fatalf("%q gives %q", raw, text)
		}
		again, err := weburl.Parse(text)
		if err != nil || again.String() != text || again.RequestURI() != u.RequestURI() || again.Host != u.Host {
			t.Fatalf("%q gives %q, which gives %v, %v", raw, text, again, err)
		}
		theirs, err := url.Parse(text)
		if err != nil || theirs.Host != u.Host || theirs.RequestURI() != u.RequestURI() || theirs.User != nil || theirs.Fragment != "" {
			t.Fatalf("%q gives %q, which net/url takes for %+v, %v", raw, text, theirs, err)
		}
		if strings.ContainsAny(u.RequestURI(), "[]{}|^`\"<>\\#") {
			t.Fatalf("%q gives %q", raw, u.RequestURI())
		}
	})
}

// TestCopiedWithMore: a URL that was copied with a character before it is refused with that character.
func TestCopiedWithMore(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"\ufeffhttps://example.org":   "must start with http:// or https://: leave out U+FEFF, the character before it",
		"\u200bhttps://example.org":   "leave out U+200B",
		"<https://example.org>":       "leave out the '<' before it",
		`"https://example.org"`:       `leave out the '"' before it`,
		"(http://example.org)":        "leave out the '(' before it",
		"“https://example.org”":       "leave out U+201C",
		"https：//example.org":         "write :// for what follows https, which begins with U+FF1A",
		"xhttps://example.org":        "the URL must start with http:// or https://",
		"https:example.org":           "the URL must start with http:// or https://",
		"example.org":                 "the URL must start with http:// or https://",
		"httpsecret：//u:pw@x.example": "the URL must start with http:// or https://",
	} {
		if _, err := weburl.Parse(text); err == nil || !strings.HasSuffix(err.Error(), want) && !strings.Contains(err.Error(), want+",") {
			t.Errorf("%q: %v, want %s", text, err, want)
		}
	}
}
