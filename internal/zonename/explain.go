package zonename

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

const (
	maxText   = 100 // longer texts are not searched
	maxQuoted = 64
	maxMeant  = 3
)

// Explain returns why a text is not the name of a time zone, and what to write instead.
func Explain(text string) string {
	shown := strconv.Quote(text)
	if len(text) > maxQuoted {
		shown = strconv.Quote(strings.ToValidUTF8(text[:maxQuoted], "")) + "…"
	}
	if len(text) > maxText {
		return shown + general
	}
	trimmed := strings.TrimSpace(asTyped.Replace(strings.Map(seen, text)))
	if hostNames[fold(trimmed)] {
		return shown + " is the zone of whichever server reads it: write its IANA name, such as Europe/Vienna"
	}
	if name := load().lower[strings.ToLower(wrapped.ReplaceAllString(trimmed, ""))]; name != "" {
		return shown + noName + ": write " + name
	}
	if hours, minutes, etc, ok := offset(trimmed); ok {
		return shown + explainOffset(hours, minutes, etc)
	}
	if rule.MatchString(trimmed) {
		return shown + " is a rule and not the name of a time zone: write an IANA name, such as Europe/Vienna"
	}
	meant, kind := find(trimmed)
	if len(meant) == 0 {
		return shown + general
	}
	return shown + kind + ": write " + either(meant)
}

const (
	general      = " is not the name of a time zone, which is a region and a city, such as Europe/Vienna"
	noName       = " is not the name of a time zone"
	ofWindows    = " is Windows' name of a time zone"
	abbreviation = " is an abbreviation and not the name of a time zone"
)

// longestAbbreviation is the length of MESZ and a letter more: what is longer is a clock's name in words.
const longestAbbreviation = 5

// hostNames are names, folded, for the zone of a host.
var hostNames = map[string]bool{
	"local": true, "localtime": true, "/etc/localtime": true, "etc/localtime": true, "posixrules": true,
	"system": true, "default": true, "systemdefault": true,
}

// asTyped turns what people type for a minus and a slash into these.
var asTyped = strings.NewReplacer("\u2212", "-", "\u2010", "-", "\u2013", "-", "±", "+", "\\", "/", "\u2215", "/", "\uff0f", "/")

// seen drops the characters that cannot be seen, such as byte order marks.
func seen(r rune) rune {
	if unicode.Is(unicode.Cf, r) {
		return -1
	}
	return r
}

var (
	// What other programs write around a name: TZ=, a colon, and the folders of copies with and without leap seconds.
	wrapped = regexp.MustCompile(`^(?:TZ=)?:?(?:/usr/share/zoneinfo/)?(?:posix/|right/)?`)
	// A POSIX rule: CET-1CEST,M3.5.0,M10.5.0/3.
	rule = regexp.MustCompile(`^[A-Za-z]{3,}[+-]?[0-9]{1,2}(:[0-9]{2})*([A-Za-z]{3,}[+-]?[0-9:]*)?(,[MJ0-9].*)?$|^<`)

	offsetText = regexp.MustCompile(`(?i)^\(?(etc/)?(?:utc|gmt)?\s*([+-])\s*([0-9]{1,2})(?::?([0-9]{2}))?\)?$`)
	offsetHead = regexp.MustCompile(`(?i)^\((?:utc|gmt)[^)]*\)`)
	listed     = regexp.MustCompile(`[,;()&]`)
)

// offset reads a text such as +02:00, UTC+2 or Etc/GMT+02.
func offset(text string) (hours, minutes int, etc, ok bool) {
	part := offsetText.FindStringSubmatch(text)
	if part == nil {
		if strings.EqualFold(text, "z") {
			return 0, 0, false, true
		}
		return 0, 0, false, false
	}
	hours, _ = strconv.Atoi(part[3])
	minutes, _ = strconv.Atoi(part[4])
	if hours > 14 || minutes > 59 {
		return 0, 0, false, false
	}
	if part[2] == "-" {
		hours, minutes = -hours, -minutes
	}
	return hours, minutes, part[1] != "" && strings.Contains(strings.ToLower(text), "gmt"), true
}

func explainOffset(hours, minutes int, etc bool) string {
	const kind = " is an offset and not a time zone"
	sign := "+"
	if hours < 0 || minutes < 0 {
		sign = "-"
	}
	shown := fmt.Sprintf("%s%02d:%02d", sign, max(hours, -hours), max(minutes, -minutes))
	name := fmt.Sprintf("Etc/GMT%+d", -hours)
	opposite := fmt.Sprintf("Etc/GMT%+d", hours)
	place, odd := fixedOffsets[shown]
	switch {
	case hours == 0 && minutes == 0:
		return kind + ": write UTC"
	case odd:
		return kind + ": write the name of a place; " + shown + " is that of " + place
	case minutes != 0 || !Known(name):
		return kind + ": write the name of a place, such as Europe/Vienna"
	case etc && Known(opposite):
		return fmt.Sprintf("%s: write %s for a clock that is always behind UTC, or %s for one that is ahead", noName, "Etc/GMT+"+strconv.Itoa(max(hours, -hours)), "Etc/GMT-"+strconv.Itoa(max(hours, -hours)))
	default:
		return fmt.Sprintf("%s: write the name of a place, such as Europe/Vienna, whose offset follows its summer time, or %s, which is %s all year (its sign is inverted)", kind, name, shown)
	}
}

// find returns the names that a text probably means, the likeliest first, and what the text is.
func find(text string) (meant []string, kind string) {
	t := load()
	text = wrapped.ReplaceAllString(text, "")
	head := offsetHead.FindString(text)
	text = strings.Trim(text[len(head):], "/ ")
	key := fold(text)
	if name, found := t.spelled[key]; found {
		if !strings.Contains(name, "/") {
			name = t.names[name] // Asia/Hong_Kong for Hongkong
		}
		return []string{name}, noName
	}
	if zone := t.windows[key]; zone != "" {
		return []string{zone}, ofWindows
	}
	if zones := t.short[clockWords(key)]; zones != nil {
		if len(key) > longestAbbreviation || strings.HasSuffix(key, "time") {
			return zones, noName
		}
		return zones, abbreviation
	}
	// Rails writes whose time it is: Eastern Time (US & Canada).
	outside, _, _ := strings.Cut(text, "(")
	for _, one := range []string{key, fold(outside)} {
		if zone := t.windows[clockWords(one)+"standardtime"]; zone != "" && strings.HasSuffix(one, "time") {
			return []string{zone}, noName
		}
	}
	if zones := t.place(key); zones != nil {
		return zones, noName
	}
	for _, one := range listed.Split(text, -1) {
		meant = appendNew(meant, t.place(fold(one))...)
	}
	if len(meant) == 0 {
		meant = t.near(key)
	}
	return meant, noName
}

// place returns the zones of a city or a country, whatever region stands before it.
func (t *tables) place(key string) []string {
	for key != "" {
		if zones := t.places[key]; zones != nil {
			return zones
		}
		if zones := t.countries[key]; zones != nil {
			return zones
		}
		first, rest, found := strings.Cut(key, "/")
		if !found || strings.Contains(rest, "/") || t.places[rest] != nil || t.countries[rest] != nil {
			key = rest
			continue
		}
		return t.places[first] // Vienna/Europe
	}
	return nil
}

// near returns names that differ from a text by a letter or two.
func (t *tables) near(key string) []string {
	best, meant := 3, []string{}
	if len(key) < 4 {
		return nil
	}
	if len(key) < 8 {
		best = 2
	}
	try := func(name, zone string) {
		switch d := distance(key, name, best); {
		case d < best:
			best, meant = d, []string{zone}
		case d == best && len(meant) > 0:
			meant = appendNew(meant, zone)
		}
	}
	for spelled, name := range t.spelled {
		try(spelled, name)
	}
	for place, zones := range t.places {
		try(place, zones[0])
	}
	slices.Sort(meant)
	return meant
}

// distance returns how many letters of one text are changed, left out, added or swapped in the other, or more than limit.
func distance(a, b string, limit int) int {
	if len(a)-len(b) > limit || len(b)-len(a) > limit {
		return limit + 1
	}
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}

// clockWords drops the words that say only that a text names a clock.
func clockWords(key string) string {
	key = strings.TrimSuffix(key, "time")
	for _, word := range []string{"standard", "daylight", "summer"} {
		key = strings.TrimSuffix(key, word)
	}
	return key
}

// fold returns a text without case, accents, blanks and the marks that separate words, but with its slashes.
func fold(text string) string {
	var out strings.Builder
	for _, r := range norm.NFD.String(text) {
		switch {
		case r == 'ø' || r == 'Ø':
			out.WriteByte('o')
		case r == 'ı':
			out.WriteByte('i')
		case unicode.Is(unicode.Mn, r) || unicode.IsSpace(r) || strings.ContainsRune("_-.'’", r):
		default:
			out.WriteRune(unicode.ToLower(r))
		}
	}
	return out.String()
}

// either lists names for a sentence.
func either(names []string) string {
	switch {
	case len(names) == 1:
		return names[0]
	case len(names) > maxMeant:
		return "one like " + strings.Join(names[:maxMeant], ", ")
	default:
		return strings.Join(names[:len(names)-1], ", ") + " or " + names[len(names)-1]
	}
}
