package mailbox

import (
	"net/mail"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"
)

// TestNames: a name is kept as it was given, with every sign that people write in names.
func TestNames(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]string{
		// As it is given.
		"Ada":                             "Ada",
		"Support (Billing)":               "Support (Billing)",
		"(Billing) Support":               "(Billing) Support",
		"Support (Billing (EU))":          "Support (Billing (EU))",
		"Support (Billing":                "Support (Billing",
		"Support) Billing":                "Support) Billing",
		":-)":                             ":-)",
		"Lovelace, Ada":                   "Lovelace, Ada",
		"Lovelace, Ada (née Byron), Ph.D": "Lovelace, Ada (née Byron), Ph.D",
		"Dr. Ada M. Lovelace Jr.":         "Dr. Ada M. Lovelace Jr.",
		"A.B.":                            "A.B.",
		".":                               ".",
		`Dwayne "The Rock" Johnson`:       `Dwayne "The Rock" Johnson`,
		`5" pipes`:                        `5" pipes`,
		"O'Neill":                         "O'Neill",
		"'Ada'":                           "'Ada'",
		"“Ada”":                           "“Ada”",
		"ada@example.org":                 "ada@example.org",
		"Ada @ Work":                      "Ada @ Work",
		"@ada":                            "@ada",
		`Back\slash`:                      `Back\slash`,
		`\`:                               `\`,
		"Team: Sales":                     "Team: Sales",
		"Sales; Support":                  "Sales; Support",
		"[JIRA] Bot":                      "[JIRA] Bot",
		"AT&T / Müller & Söhne GmbH":      "AT&T / Müller & Söhne GmbH",
		"Zoë Ångström":                    "Zoë Ångström",
		"Jürgen (Büro)":                   "Jürgen (Büro)",
		"山田 太郎":                           "山田 太郎",
		"山田（営業）":                          "山田（営業）",
		"Владимир":                        "Владимир",
		"محمد":                            "محمد",
		"🙂 Shop 👨‍👩‍👧":                    "🙂 Shop 👨‍👩‍👧",
		"Ada   Lovelace":                  "Ada   Lovelace",
		"\u00a0Ada\u3000":                 "Ada",
		"  Ada  ":                         "Ada",
		"Price =? 5":                      "Price =? 5",
		// One pair of quotes, as programs write them.
		`"Lovelace, Ada"`:               "Lovelace, Ada",
		`"Support (Billing)"`:           "Support (Billing)",
		`"Dwayne \"The Rock\" Johnson"`: `Dwayne "The Rock" Johnson`,
		`"C:\\temp"`:                    `C:\temp`,
		`"a@b.org, c <d@e.org>"`:        "a@b.org, c <d@e.org>",
		`"=?utf-8?q?a?="`:               "=?utf-8?q?a?=",
		`" Ada "`:                       "Ada",
		`""`:                            "",
		// Encoded words, as programs write them.
		"=?utf-8?q?Zo=C3=AB?=":                        "Zoë",
		"=?UTF-8?B?5bGx55Sw?= =?UTF-8?B?5aSq6YOO?=":   "山田太郎",
		"=?iso-8859-1?q?Andr=E9?= (Billing)":          "André (Billing)",
		"=?utf-8?q?=22The=22_=3Ca=40b=2Eorg=3E?= Ada": `"The" <a@b.org> Ada`,
	} {
		for _, text := range []string{given + " <ada@example.org>", given + "<ada@example.org>", "  " + given + "  < ada@example.org > "} {
			m, err := Parse(text)
			if err != nil || m != (Mailbox{Name: want, Local: "ada", Domain: "example.org"}) {
				t.Errorf("%s: %+v, %v, want the name %q", text, m, err, want)
				continue
			}
			if back, err := Parse(m.String()); err != nil || back != m {
				t.Errorf("%s: written as %s, which is read as %+v, %v", text, m, back, err)
			}
			// Other code reads what is written the same way (RFC 5322).
			if std, err := mail.ParseAddress(m.String()); err != nil || std.Name != want && !strings.Contains(want, "\u200d") || std.Address != "ada@example.org" {
				t.Errorf("%s: written as %s, which net/mail reads as %+v, %v", text, m, std, err)
			}
		}
	}
}

// TestRefusals: what could be meant in two ways is refused with what to write instead, and that
// is taken.
func TestRefusals(t *testing.T) {
	t.Parallel()
	for text, write := range map[string]string{
		`"Ada" Lovelace <ada@example.org>`:             `"\"Ada\" Lovelace" <ada@example.org>`,
		`"Ada" "Lovelace" <ada@example.org>`:           `"\"Ada\" \"Lovelace\"" <ada@example.org>`,
		`"Lovelace, Ada" (Work) <ada@example.org>`:     `"\"Lovelace, Ada\" (Work)" <ada@example.org>`,
		`"Lovelace, Ada <ada@example.org>`:             `"Lovelace, Ada" <ada@example.org>`,
		`"C:\temp" <ada@example.org>`:                  `"C:\\temp" <ada@example.org>`,
		`"Ada\" <ada@example.org>`:                     `"Ada\\\"" <ada@example.org>`,
		"Ada ada@example.org":                          "Ada <ada@example.org>",
		"Ada Lovelace (Work) ada@example.org":          `"Ada Lovelace (Work)" <ada@example.org>`,
		"Ada <ada@example.org":                         "Ada <ada@example.org>",
		"Ada ada@example.org>":                         "Ada <ada@example.org>",
		"Ada ＜ada@example.org＞":                        "Ada <ada@example.org>",
		"ada@example.org (Ada)":                        "Ada <ada@example.org>",
		"ada@example.org Ada":                          "Ada <ada@example.org>",
		"(Ada) ada@example.org":                        "Ada <ada@example.org>",
		`"Lovelace, Ada" ada@example.org`:              `"Lovelace, Ada" <ada@example.org>`,
		"Ada <ada@example.org> (Work)":                 `"Ada (Work)" <ada@example.org>`,
		"Ada <ada@example.org>,":                       "Ada <ada@example.org>",
		"ada@example.org;":                             "ada@example.org",
		"mailto:ada@example.org":                       "ada@example.org",
		"Ada <MAILTO:ada@example.org>":                 "Ada <ada@example.org>",
		"<@relay.example:ada@example.org>":             "ada@example.org",
		"Ada <@relay.example:ada@example.org>":         "Ada <ada@example.org>",
		"ada@bob@example.org":                          "",
		"ada@example.org.":                             "ada@example.org",
		"Ada <ada@example.org.>":                       "Ada <ada@example.org>",
		"ada..l@example.org":                           `"ada..l"@example.org`,
		"ada.@example.org":                             `"ada."@example.org`,
		"Ada <.ada@example.org>":                       `Ada <".ada"@example.org>`,
		"ada@example..org":                             "",
		"ada@.example.org":                             "",
		"a@example.org, Bob <bob@example.org>":         "",
		"Ann <a@example.org>, Bob <bob@example.org>":   "",
		"a@example.org; b@example.org":                 "",
		"a@example.org b@example.org":                  "",
		"friends: a@example.org;":                      "",
		"friends: Ann <a@example.org>, b@example.org;": "",
		"undisclosed-recipients:;":                     "",
		"Ada <>":                                       "",
		"Ada <ada>":                                    "",
		"Ada":                                          "",
		"":                                             "",
		" ":                                            "",
		"<ada@example.org":                             "ada@example.org",
		"Ada <<ada@example.org>>":                      "",
		"Ada <ada@[127.0.0.1]>":                        "",
		"=?koi8-r?B?98zBxMnNydI=?= <ada@example.org>":  "",
		"=?utf-8?q?Ada=0D=0ABcc:_eve@example.org?= <ada@example.org>": "",
		"=?utf-8?q?Ada=E2=80=A8?= <ada@example.org>":                  "",
		"Ada\tLovelace <ada@example.org>":                             "",
		"Ada\u0085 <ada@example.org>":                                 "",
		"Ada <ada(comment)@example.org>":                              "",
		"bob@exa mple.net":                                            "",
	} {
		m, err := Parse(text)
		if err == nil {
			t.Errorf("%s: taken as %+v", text, m)
			continue
		}
		if strings.IndexFunc(err.Error(), unicode.IsControl) >= 0 {
			t.Errorf("%s: %q has control characters", text, err)
		}
		if write == "" {
			continue
		}
		if !strings.HasSuffix(err.Error(), "write "+write) {
			t.Errorf("%s: %v, want to write %s", text, err, write)
		}
		if _, err := Parse(write); err != nil {
			t.Errorf("%s: the suggested %s: %v", text, write, err)
		}
	}
}

// TestWritten: every name that can be is read back from what is written, here and by net/mail.
func TestWritten(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := strings.TrimSpace(rapid.StringOfN(rapid.SampledFrom([]rune(`ab =?_"\,<>@:;()[].äß漢🙂'`)), 0, 40, -1).Draw(t, "name"))
		m := Mailbox{Name: name, Local: "ada", Domain: "example.org"}
		if back, err := Parse(m.String()); err != nil || back != m {
			t.Fatalf("%q is written as %s, and read as %+v, %v", name, m, back, err)
		}
		if std, err := mail.ParseAddress(m.String()); err != nil || std.Name != name || std.Address != "ada@example.org" {
			t.Fatalf("%q is written as %s, and read by net/mail as %+v, %v", name, m, std, err)
		}
		// Without quotes the name is kept, or refused: never another one.
		if raw, err := Parse(name + " <ada@example.org>"); err == nil && raw.Name != name && !strings.HasPrefix(name, `"`) && !strings.Contains(name, "=?") {
			t.Fatalf("%q is kept as %q", name, raw.Name)
		}
	})
}

// TestUnseen: a character that cannot be seen would make another address of it, or one that a relay refuses much later.
func TestUnseen(t *testing.T) {
	t.Parallel()
	for _, r := range []rune{'\u00a0', '\u00ad', '\u061c', '\u1680', '\u180e', '\u2003', '\u200b', '\u200e', '\u202a', '\u202e', '\u2060', '\u2066', '\u3000', '\ufeff', '\U000e0041'} {
		for _, text := range []string{"a" + string(r) + "da@example.org", "ada" + string(r) + "@example.org", "Ada <a" + string(r) + "da@example.org>"} {
			if m, err := Parse(text); err == nil || !strings.Contains(err.Error(), "cannot be seen") {
				t.Errorf("%q: %+v, %v", text, m, err)
			}
		}
	}
	for text, want := range map[string]Mailbox{
		"\ufeffada@example.org":             {Local: "ada", Domain: "example.org"},
		"\ufeffAda <ada@example.org>":       {Name: "Ada", Local: "ada", Domain: "example.org"},
		"Ada <\u3000ada@example.org\u00a0>": {Name: "Ada", Local: "ada", Domain: "example.org"},
		"می\u200cخواهم@example.org":         {Local: "می\u200cخواهم", Domain: "example.org"},
	} {
		if m, err := Parse(text); err != nil || m != want {
			t.Errorf("%q: %+v, %v, want %+v", text, m, err, want)
		}
	}
}
