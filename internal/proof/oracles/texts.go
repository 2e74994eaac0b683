package oracles

import (
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

// Text is one that is compared.
type Text struct {
	Text string
	// Scripts are those that it was made of; none: it is of others.
	Scripts []string
}

// words are people's words, by script.
var words = map[string][]string{
	"Latin":      {"hello", "Straße", "café", "cafe\u0301", "İstanbul", "naïve", "z\u0323\u0307", "ſet", "ﬁn", "A\u030angström", "Ünïcödé", "don't", "a_b", "x"},
	"Greek":      {"καλημέρα", "ΣΊΣΥΦΟΣ", "ς", "ελ", "ὀδυσσεύς"},
	"Cyrillic":   {"привет", "Москва", "ёлка", "РФ", "и\u0306", "ком"},
	"Hebrew":     {"שלום", "שָׁלוֹם", "\u200fעברית\u200f"},
	"Arabic":     {"مرحبا", "السَّلَامُ", "می\u200cخواهم", "٣٤٥", "\u061cعربي"},
	"Devanagari": {"नमस्ते", "क्षत्रिय", "हिन्दी", "क\u094d\u200dष", "३४", "श्री"},
	"Bengali":    {"বাংলা", "ক্ষ", "স্ত্রী"},
	"Tamil":      {"தமிழ்", "க்ஷி", "நி"},
	"Thai":       {"สวัสดี", "กำ", "ที่นี่"},
	"Hangul":     {"안녕", "\u1112\u1161\u11ab", "한국어", "각"},
	"Han":        {"你好", "漢字", "𠮷野家", "中国", "澳門"},
	"Hiragana":   {"こんにちは", "か\u3099", "ありがとう"},
	"Katakana":   {"カタカナ", "ﾊﾝｶｸ", "ガ", "コム"},
	"Georgian":   {"გამარჯობა", "ᲡᲐᲥᲐᲠᲗᲕᲔᲚᲝ"},
	"Armenian":   {"բարեւ", "և"},
	"Ethiopic":   {"ሰላም"},
	"Khmer":      {"សួស្តី", "ខ្មែរ"},
	"Myanmar":    {"မင်္ဂလာပါ", "မြန်မာ"},
	"Tibetan":    {"བོད་སྐད"},
	"Cherokee":   {"ᏣᎳᎩ", "ꭰ"},
	"Gothic":     {"𐌲𐌿𐍄", "𐌰"},
	"Deseret":    {"𐐔𐐯𐑅", "𐐀"},
}

// emoji, with joiners, flags, skin tones, selectors and keycaps, and parts of them.
var emoji = []string{
	"😀", "👨\u200d👩\u200d👧\u200d👦", "👩🏽\u200d💻", "🏳\ufe0f\u200d🌈", "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f", "🇩🇪", "🇩", "🇩🇪🇫🇷🇯", "👍🏿", "🏿",
	"1\ufe0f\u20e3", "#\u20e3", "*\ufe0f\u20e3", "❤\ufe0f", "❤", "❤\ufe0f\u200d🔥", "☺\ufe0e", "✌🏻", "✌\ufe0e🏻", "⛹🏽\u200d♀\ufe0f", "🫠", "🫱🏻\u200d🫲🏿", "👁\u200d🗨", "👁\ufe0f\u200d🗨\ufe0f",
	"©", "©\ufe0f", "™", "→", "↔\ufe0f", "🀄", "🃏", "🅰", "㊗", "〰", "👯\u200d♂\ufe0f", "🧑\u200d🦰", "👨\u200d", "\u200d", "\ufe0f", "\ufe0e", "♟\ufe0f", "🐦\u200d⬛", "🙂\u200d↔\ufe0f", "👩\u200d❤\ufe0f\u200d💋\u200d👩",
}

// between stands between words: blanks of all kinds, line ends, marks that show nothing, and nothing.
var between = []string{
	" ", " ", " ", " ", "", "", "\u3000", "\n", "\r\n", "\r", "\t", "\u00a0", "\u2003", "\u200a", "\u200b", "\u200c", "\u200d", "\u2060", "\u00ad", "\u2028", "\u2029", "\u0085", "\u1680", "\u180e",
	"\u202f", "\u205f", "\u200e", "\u200f", "\u202a", "\u202c", "\u2066", "\u2069", "\u061c", "\u20e2", "\v", "\f", "\ufeff", "\u0301", "\u3099", "\u034f", "\u0e31",
}

// marks are punctuation and symbols.
var marks = []string{
	".", ",", "!", "?", "…", ":", ";", "'", "\"", "’", "“", "”", "(", ")", "[", "]", "{", "}", "<", ">", "&", "&amp;", "*", "_", "-", "–", "—", "/", "\\", "|", "~", "`", "@", "＠", "#", "＃", "$", "%", "^", "+", "=",
	"。", "、", "．", "｡", "！", "（", "）", "「", "」", "・", "ー", "؟", "،", "¿", "¡", "«", "»", "€", "¥", "º", "½", "²", "٪", "।", "՞", "᎐",
}

// addresses are links, hosts, mail addresses, mentions and tags, whole and broken.
var addresses = []string{
	"example.com", "spiegel.de", "orf.at", "amazon.fr", "Otto.DE", "t.co", "bbc.co.uk", "a.b.c.d.museum", "node.js", "e.g.", "i.e", "1.5", "3.com", "foo.community", "xn--80ak6aa92e.com", "example.xn--p1ai", "xn--a.b",
	"münchen.de", "пример.рф", "москва.ком", "παράδειγμα.ελ", "例え.テスト", "例え.みんな", "日本語.jp", "한국.한국", "السعودية.السعودية", "i❤.ws", "☃.net", "💩.la", "あa.com", "a.comい", "a.comい.net/x", "é.com", "a_b.example.com", "a-b.com", "-a.com", "a-.com", "a..com",
	"http://example.com", "https://example.com/", "HTTP://EXAMPLE.COM/PATH", "https://example.de", "https://localhost/x", "https://192.168.0.1/a", "https://user:pw@example.org/", "https://", "http://a", "httpbin.org", "https:/a.com", "ftp://example.com/a", "//example.com",
	"https://example.com:8080/a", "example.com:80", "example.com:x", "https://example.com?x=1", "example.com?x=1", "https://example.com/?a=b&c=d#e", "https://example.com/#!/a", "https://example.com/a.", "https://example.com/a,b;c", "https://example.com/–dash–", "https://example.com/—em", "https://example.com/a–b",
	"https://en.wikipedia.org/wiki/Primer_(film)", "https://a.com/(((x)))", "https://a.com/(a(b)c)", "https://a.com/x)", "https://a.com/@user/", "https://a.com/@user", "https://a.com/a@b.c", "https://a.com/ü", "https://a.com/u\u0308", "https://a.com/путь", "https://a.com/日本", "https://a.com/%E6%97%A5", "https://a.com/[x]", "https://a.com/~x|y", "https://a.com/'q'", "https://a.com/\"q\"", "https://a.com/a\u200bb", "https://a.com/ˈ", "https://a.com/ſK",
	"https://t.co/abcdefghij", "https://t.co/abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz", "https://t.co/abc?x=1", "https://t.co/abc/def", "http://T.CO/abc-d", "https://t.co/",
	"ada@example.com", "ada+tag@example.co.jp", "@example.com", "@ada", "@ada.bsky.social", "(@ada.test)", "@ada.example", "@ada.com.", "@ada.com-", "@ada.com_x", "@", "＠ada.com", "@_x.com", ".@ada.com", "$TSLA", "$a", "$ABCDEF", "($x)", "$1.50", "$tsla’s", "#tag", "#2026", "#a1", "＃日本語", "#", "##x", "#\ufe0f\u20e3", "#a.b!", "#tag#two", "#$x", "#@x", "#１２", "#ñ", "#a\u200bb", "#😀", "#_", "#·", "#a。",
	"example.com/x", "example.com/日本", "example.com/(x", "www.example.com", "EXAMPLE.COM", "example.cOm", "sub.example.org/a?b=c", "x.example.com@y", "a.com@b.com", "a.com+b", "a.com-b", "a.com_b", "a.com。", "a.com、b", "a.com’s", "a.com!", "a.com)", "(a.com)", "\"a.com\"", "-a.com", "_a.com", "/a.com", "$a.com", "#a.com", "1a.com", "a.com1", "a.co", "a.com.", "a.com.b", "a.onion", "a.みんな/x", "aaa.онлайн", "K.com", "a.Kiwi", "a.\u212aiwi", "vermögensberater.vermögensberater", "a.VERMÖGENSBERATER",
}

// Texts makes n texts of a seed: words of two scripts or three, with what people type between them.
func Texts(seed uint64, n int) []Text {
	r := rand.New(rand.NewPCG(seed, seed)) //nolint:gosec // texts for tests, the same each time
	var scripts []string
	for s := range words {
		scripts = append(scripts, s)
	}
	slices.Sort(scripts)
	one := func(of []string) string { return of[r.IntN(len(of))] }
	out := make([]Text, 0, n)
	for i := range n {
		mine := []string{scripts[i%len(scripts)], one(scripts)}
		var b strings.Builder
		for range 1 + r.IntN(9) {
			switch k := r.IntN(20); {
			case k < 7:
				b.WriteString(one(words[one(mine)]))
			case k < 9:
				b.WriteString(one(emoji))
			case k < 14:
				b.WriteString(one(addresses))
			case k < 15: // a host of any words
				b.WriteString(one(words[one(mine)]) + "." + one([]string{"com", "de", "рф", "みんな", "org", "x", "ελ", "コム", "xn--p1ai"}) + one([]string{"", "/", "/a–b", "/é", ":1", "?q"}))
			case k < 18:
				b.WriteString(one(marks))
			default:
				b.WriteString(string(anyRune(r)))
			}
			b.WriteString(one(between))
		}
		out = append(out, Text{Text: b.String(), Scripts: mine})
	}
	return out
}

// anyRune is a character of any plane that is assigned here.
func anyRune(r *rand.Rand) rune {
	for {
		c := rune(r.IntN(0x20000))
		if r.IntN(2) == 0 {
			c = rune(r.IntN(0x3100))
		}
		if c != 0 && utf8.ValidRune(c) && (unicode.IsGraphic(c) || unicode.Is(unicode.Cf, c)) {
			return c
		}
	}
}

// Corpus returns the addresses, emoji and marks by themselves and in a sentence, n texts of a seed, and those
// of the folder that Conformance names.
func Corpus(t *testing.T, seed uint64, n int) []Text {
	t.Helper()
	var out []Text
	for _, list := range [][]string{addresses, emoji, marks, between} {
		for _, a := range list {
			for _, text := range []string{a, "see " + a, a + " end", "見て" + a + "です", "(" + a + ")", "😀" + a + "😀", "\u200f" + a + "\u200e"} {
				out = append(out, Text{Text: text})
			}
		}
	}
	if folder := os.Getenv(Conformance); folder != "" {
		files, err := filepath.Glob(filepath.Join(folder, "*.json"))
		if err != nil || len(files) == 0 {
			t.Fatalf("%s=%s has no *.json: %v", Conformance, folder, err)
		}
		for _, f := range files {
			var texts []string
			raw, err := os.ReadFile(f) //nolint:gosec // named by who runs the test
			if err != nil || json.Unmarshal(raw, &texts) != nil {
				t.Fatalf("%s is no array of texts: %v", f, err)
			}
			for _, text := range texts {
				out = append(out, Text{Text: text})
			}
		}
	}
	return append(out, Texts(seed, n)...)
}

// Plain returns the texts alone.
func Plain(texts []Text) []string {
	out := make([]string, len(texts))
	for i, t := range texts {
		out[i] = t.Text
	}
	return out
}

// Scripts counts the scripts that texts have.
func Scripts(texts []Text) int {
	seen := make(map[string]bool)
	for _, t := range texts {
		for _, r := range t.Text {
			for name, table := range unicode.Scripts {
				if name != "Common" && name != "Inherited" && !seen[name] && unicode.Is(table, r) {
					seen[name] = true
				}
			}
		}
	}
	return len(seen)
}
