package recur

import (
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/rickar/cal/v2"
	"github.com/rickar/cal/v2/ar"
	"github.com/rickar/cal/v2/at"
	"github.com/rickar/cal/v2/au"
	"github.com/rickar/cal/v2/be"
	"github.com/rickar/cal/v2/bg"
	"github.com/rickar/cal/v2/br"
	"github.com/rickar/cal/v2/ca"
	"github.com/rickar/cal/v2/ch"
	"github.com/rickar/cal/v2/cz"
	"github.com/rickar/cal/v2/de"
	"github.com/rickar/cal/v2/dk"
	"github.com/rickar/cal/v2/ecb"
	"github.com/rickar/cal/v2/es"
	"github.com/rickar/cal/v2/fr"
	"github.com/rickar/cal/v2/gb"
	"github.com/rickar/cal/v2/gr"
	"github.com/rickar/cal/v2/hr"
	"github.com/rickar/cal/v2/ie"
	"github.com/rickar/cal/v2/it"
	"github.com/rickar/cal/v2/jp"
	"github.com/rickar/cal/v2/lt"
	"github.com/rickar/cal/v2/lv"
	"github.com/rickar/cal/v2/mw"
	"github.com/rickar/cal/v2/nc"
	"github.com/rickar/cal/v2/nl"
	"github.com/rickar/cal/v2/no"
	"github.com/rickar/cal/v2/nz"
	"github.com/rickar/cal/v2/pl"
	"github.com/rickar/cal/v2/ro"
	"github.com/rickar/cal/v2/ru"
	"github.com/rickar/cal/v2/se"
	"github.com/rickar/cal/v2/si"
	"github.com/rickar/cal/v2/sk"
	"github.com/rickar/cal/v2/ua"
	"github.com/rickar/cal/v2/us"
	"github.com/rickar/cal/v2/za"
)

// Holidays are known for these years. A calendar excludes no days outside them.
const (
	firstHolidayYear = 2020
	lastHolidayYear  = 2050
)

// calendars are the public holidays of countries and of their parts, by ISO 3166 code; ECB is the euro's payment system.
var calendars = map[string][]*cal.Holiday{
	"AR":     ar.Holidays,
	"AT":     at.Holidays,
	"AU-ACT": au.HolidaysACT,
	"AU-NSW": au.HolidaysNSW,
	"AU-NT":  au.HolidaysNT,
	"AU-QLD": au.HolidaysQLD,
	"AU-SA":  au.HolidaysSA,
	"AU-TAS": au.HolidaysTAS,
	"AU-VIC": au.HolidaysVIC,
	"AU-WA":  au.HolidaysWA,
	"BE":     be.Holidays,
	"BG":     bg.Holidays,
	"BR":     br.Holidays,
	"CA":     ca.Holidays,
	"CH":     ch.Holidays,
	"CH-ZH":  ch.HolidaysZH,
	"CH-BE":  ch.HolidaysBE,
	"CH-LU":  ch.HolidaysLU,
	"CH-UR":  ch.HolidaysUR,
	"CH-SZ":  ch.HolidaysSZ,
	"CH-OW":  ch.HolidaysOW,
	"CH-NW":  ch.HolidaysNW,
	"CH-GL":  ch.HolidaysGL,
	"CH-ZG":  ch.HolidaysZG,
	"CH-FR":  ch.HolidaysFR,
	"CH-SO":  ch.HolidaysSO,
	"CH-BS":  ch.HolidaysBS,
	"CH-BL":  ch.HolidaysBL,
	"CH-SH":  ch.HolidaysSH,
	"CH-AR":  ch.HolidaysAR,
	"CH-AI":  ch.HolidaysAI,
	"CH-SG":  ch.HolidaysSG,
	"CH-GR":  ch.HolidaysGR,
	"CH-AG":  ch.HolidaysAG,
	"CH-TG":  ch.HolidaysTG,
	"CH-VD":  ch.HolidaysVD,
	"CH-TI":  ch.HolidaysTI,
	"CH-VS":  ch.HolidaysVS,
	"CH-NE":  ch.HolidaysNE,
	"CH-GE":  ch.HolidaysGE,
	"CH-JU":  ch.HolidaysJU,
	"CZ":     cz.Holidays,
	"DE":     de.Holidays,
	"DE-BW":  de.HolidaysBW,
	"DE-BY":  de.HolidaysBY,
	"DE-BE":  de.HolidaysBE,
	"DE-BB":  de.HolidaysBB,
	"DE-HB":  de.HolidaysHB,
	"DE-HH":  de.HolidaysHH,
	"DE-HE":  de.HolidaysHE,
	"DE-MV":  de.HolidaysMV,
	"DE-NI":  de.HolidaysNI,
	"DE-NW":  de.HolidaysNW,
	"DE-RP":  de.HolidaysRP,
	"DE-SL":  de.HolidaysSL,
	"DE-SN":  de.HolidaysSN,
	"DE-ST":  de.HolidaysST,
	"DE-SH":  de.HolidaysSH,
	"DE-TH":  de.HolidaysTH,
	"DK":     dk.Holidays,
	"ECB":    ecb.Holidays,
	"ES":     es.Holidays,
	"FR":     fr.Holidays,
	"GB":     gb.Holidays,
	"GR":     gr.Holidays,
	"HR":     hr.Holidays,
	"IE":     ie.Holidays,
	"IT":     it.Holidays,
	"JP":     jp.Holidays,
	"LT":     lt.Holidays,
	"LV":     lv.Holidays,
	"MW":     mw.Holidays,
	"NC":     nc.Holidays,
	"NL":     nl.Holidays,
	"NO":     no.Holidays,
	"NZ":     nz.Holidays,
	"PL":     pl.Holidays,
	"RO":     ro.Holidays,
	"RU":     ru.Holidays,
	"SE":     se.Holidays,
	"SI":     si.Holidays,
	"SK":     sk.Holidays,
	"UA":     ua.Holidays,
	"US":     us.Holidays,
	"ZA":     za.Holidays,
}

// init sets the zone in which the library computes days. In the machine's own zone, a midnight that does not exist
// would move a holiday to the day before.
func init() { cal.DefaultLoc = time.UTC }

// Calendars returns the names of the holiday calendars, in order.
func Calendars() []string { return slices.Sorted(maps.Keys(calendars)) }

var holidayCache struct {
	sync.Mutex
	days map[string][]dayRange
}

// holidays returns the days off of a calendar: each holiday and, if it falls on a weekend, the day off that replaces it.
func holidays(name string) ([]dayRange, error) {
	list, found := calendars[name]
	if !found {
		return nil, &fault{"", fmt.Sprintf("%s is not the name of a holiday calendar such as AT, DE-BY, GB or US", quote(name))}
	}
	holidayCache.Lock()
	defer holidayCache.Unlock()
	if days, found := holidayCache.days[name]; found {
		return days, nil
	}
	var days []dayRange
	// A holiday of the next year may be observed in this one.
	for year := firstHolidayYear - 1; year <= lastHolidayYear+1; year++ {
		for _, holiday := range list {
			actual, observed := holiday.Calc(year)
			for _, at := range []time.Time{actual, observed} {
				if y, month, day := at.Date(); y >= firstHolidayYear && y <= lastHolidayYear {
					number := civilOf(y, month, day).day()
					days = append(days, dayRange{number, number})
				}
			}
		}
	}
	if holidayCache.days == nil {
		holidayCache.days = map[string][]dayRange{}
	}
	holidayCache.days[name] = mergeDays(days)
	return holidayCache.days[name], nil
}
