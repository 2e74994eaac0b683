#!/usr/bin/env python3
"""Computes the beats of cron expressions in many zones, minute by minute, with nothing of the Go code.

Usage: PYTHONTZPATH=directory beats.py FIRST_YEAR YEARS [ZONE...]

It writes, for each zone: one line for each expression (count, digest of all beats, expression). For each transition: how many beats
are within an hour of it, their digest, and those of them that the transition did something to. beats.golden is its output for 2024 2 and all zones.
"""

import bisect
import datetime
import hashlib
import sys
import zoneinfo
from array import array

ZONES = """UTC Europe/Vienna America/New_York Australia/Lord_Howe Africa/Cairo Asia/Beirut America/Santiago America/Havana
Antarctica/Troll Africa/Casablanca Europe/Dublin Pacific/Chatham Asia/Kathmandu Asia/Tehran America/St_Johns America/Asuncion
Asia/Gaza Europe/Lisbon Pacific/Apia America/Sao_Paulo Pacific/Auckland Africa/El_Aaiun America/Scoresbysund""".split()
DEFAULT = ZONES[1]

FIXED = ["0 0 * * *", "30 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *", "30 3 * * *",
         "30 23 * * *", "0,30 1-3 * * *", "15 22-2 * * 1-5"]
QUARTERS = ["*/15 * * * *"]
ELAPSED = ["7 * * * *", "0 */2 * * *", "30 * 25-31 3,10 SUN"]
# The quarters of an hour are computed in all zones, and these in zones that do all that zones do to them.
ELAPSED_ZONES = ["Europe/Vienna", "Australia/Lord_Howe", "America/Santiago", "Antarctica/Troll"]
# These are about days, so that one zone is enough.
CALENDAR = ["0 9 L * *", "0 9 L-3 * *", "0 9 * * MON#1", "0 9 LW * *", "0 9 15W * *", "0 9 1W,31W * *", "0 9 * * FRI#L", "0 9 * * 5#L,0#2",
            "0 9 * * FRI-SUN", "0 9 * * 5-7", "0 9 * * 6-2", "0 9 * * THU", "0 9 25-5 11-2 *", "50-10/5 9 1 * *", "30 2 13 * FRI",
            "0 9 */2 * MON", "0 9 1-31/2 * */3", "0 9 L * MON", "@monthly", "@weekly", "0 0 29 2 ?", "@hourly"]

MACROS = {"@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0", "@hourly": "0 * * * *"}
MONTHS = "JAN FEB MAR APR MAY JUN JUL AUG SEP OCT NOV DEC".split()
DAYS = "SUN MON TUE WED THU FRI SAT".split()
EPOCH = datetime.date(1970, 1, 1)


def number(text, names, base):
    return base + names.index(text) if text in names else int(text)


def values(field, low, high, names=(), base=0):
    """The numbers that a field names. A range that runs backwards goes over the end. Sunday is also 7."""
    found, size = set(), high - low + 1
    for item in field.split(","):
        item, _, step = item.partition("/")
        if item in ("*", "?"):
            first, last = low, high
        elif "-" in item:
            first, last = (number(x, names, base) for x in item.split("-"))
            if last < first:
                last += size
        else:
            first = number(item, names, base)
            last = high if step else first
        found.update(n if n <= high or names is DAYS else n - size for n in range(first, last + 1, int(step or 1)))
    return found


def month_end(day):
    return (day.replace(day=28) + datetime.timedelta(days=4)).replace(day=1) - datetime.timedelta(days=1)


def workday_near(day):
    """The weekday from Monday to Friday nearest to day in its month."""
    for step in (0, -1, 1, -2, 2):
        other = day + datetime.timedelta(days=step)
        if other.month == day.month and other.weekday() < 5:
            return other


def day_matches(day, by_number, months, by_weekday):
    if day.month not in values(months, 1, 12, MONTHS, 1):
        return False
    last = month_end(day)
    numbered = False
    for item in by_number.split(","):
        if item == "LW":
            numbered |= day == workday_near(last)
        elif item[0] == "L":
            numbered |= day.day == last.day - int(item[2:] or 0)
        elif item[-1] == "W":
            numbered |= int(item[:-1]) <= last.day and day == workday_near(day.replace(day=int(item[:-1])))
        else:
            numbered |= day.day in values(item, 1, 31)
    weekday = (day.weekday() + 1) % 7
    named = False
    for item in by_weekday.split(","):
        name, _, nth = item.partition("#")
        if nth == "L":
            named |= weekday == number(name, DAYS, 0) % 7 and (day + datetime.timedelta(days=7)).month != day.month
        elif nth:
            named |= weekday == number(name, DAYS, 0) % 7 and (day.day - 1) // 7 + 1 == int(nth)
        else:
            # As Sunday is both, */3 goes over 0 to 7.
            named |= bool({weekday, weekday + 7} & values(item, 0, 6, DAYS, 0))
    if by_number[0] in "*?" or by_weekday[0] in "*?":
        return numbered and named
    return numbered or named


def naive(expression, first, last):
    """The civil minutes (from 1970) that match on a clock without transitions."""
    minute, hour, by_number, months, by_weekday = MACROS.get(expression, expression).split()
    clocks = sorted(60 * h + m for h in values(hour, 0, 23) for m in values(minute, 0, 59))
    found = []
    for n in range(first // 1440, last // 1440 + 1):
        if day_matches(EPOCH + datetime.timedelta(days=n), by_number, months, by_weekday):
            found.extend(1440 * n + clock for clock in clocks)
    return found


UTC_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def offset(zone, minute):
    return int((UTC_EPOCH + datetime.timedelta(minutes=minute)).astimezone(zone).utcoffset().total_seconds()) // 60


def runs_of(zone, first, last):
    """The stretches of UTC minutes with one offset each: (from, to, offset)."""
    runs, begin, now = [], first, offset(zone, first)
    for quarter in range(first, last, 15):
        if offset(zone, quarter + 15) == now:
            continue
        for minute in range(quarter, quarter + 16):
            then = offset(zone, minute)
            if then != now:
                runs.append((begin, minute, now))
                begin, now = minute, then
    runs.append((begin, last, now))
    return runs


class Wall:
    """When a zone's clock shows which minute."""

    def __init__(self, zone, first, last):
        self.runs = runs_of(zone, first, last)
        self.base = first - 2000
        size = last - first + 4000
        self.first = array("q", [-1]) * size  # the UTC minute of the first pass, by civil minute
        self.last = array("q", [-1]) * size
        for begin, end, off in reversed(self.runs):
            at = begin + off - self.base
            self.first[at:at + end - begin] = array("q", range(begin, end))
        for begin, end, off in self.runs:
            at = begin + off - self.base
            self.last[at:at + end - begin] = array("q", range(begin, end))


def civil_text(minute):
    return (UTC_EPOCH + datetime.timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S")


def fixed_beats(wall, nominal):
    """A time that exists fires at its first pass, one that does not at the first minute after the gap: each instant once."""
    beats, taken = [], None
    for civil in nominal:
        at = wall.first[civil - wall.base]
        mark = ""
        if at < 0:
            later = civil
            while wall.first[later - wall.base] < 0:
                later += 1
            at, mark = wall.first[later - wall.base], "SHIFTED"
        elif wall.last[civil - wall.base] != at:
            mark = "FIRST_OF_TWO"
        if at != taken:
            beats.append((at, civil, 1, mark))
        taken = at
    return beats


def elapsed_beats(wall, nominal):
    """Each minute that the clock shows is looked at, in each pass."""
    matching = set(nominal)
    beats = []
    for begin, end, off in wall.runs:
        for at in range(begin, end):
            if at + off in matching:
                again = wall.first[at + off - wall.base] != at
                beats.append((at, at + off, 2 if again else 1, "REPEATED" if again else ""))
    return beats


def line(beat):
    at, civil, number_of_pass, mark = beat
    return f"{civil_text(civil)}/{number_of_pass} {civil_text(at)}Z {mark}".rstrip()


def digest(beats):
    return hashlib.sha256("".join(line(b) + "\n" for b in beats).encode()).hexdigest()[:16]


def main():
    first_year, years = int(sys.argv[1]), int(sys.argv[2])
    begin = (datetime.date(first_year, 1, 1) - EPOCH).days * 1440
    end = (datetime.date(first_year + years, 1, 1) - EPOCH).days * 1440
    margin = 4 * 1440
    nominal = {e: naive(e, begin - margin + 2000, end + margin - 2000) for e in FIXED + QUARTERS + ELAPSED + CALENDAR}
    print(f"years {first_year} {years}")
    for name in sys.argv[3:] or ZONES:
        wall = Wall(zoneinfo.ZoneInfo(name), begin - margin, end + margin)
        transitions = [run[0] for run in wall.runs[1:] if begin <= run[0] < end]
        near = {t: [] for t in transitions}
        print(f"zone {name}")
        expressions = FIXED + QUARTERS + (ELAPSED if name in ELAPSED_ZONES else []) + (CALENDAR if name == DEFAULT else [])
        for index, expression in enumerate(expressions):
            hour = MACROS.get(expression, expression).split()[1]
            compute = elapsed_beats if "*" in hour or "/" in hour else fixed_beats
            beats = [b for b in compute(wall, nominal[expression]) if begin <= b[0] < end]
            print(f"= {len(beats)} {digest(beats)} {expression}")
            for t in transitions:
                low, high = bisect.bisect_left(beats, (t - 60,)), bisect.bisect_left(beats, (t + 61,))
                near[t] += [(index, b) for b in beats[low:high]]
        for t in transitions:
            print(f"@ {civil_text(t)}Z {len(near[t])} {digest(b for _, b in near[t])}")
            print("".join(f"{index} {line(b)}\n" for index, b in near[t] if b[3]), end="")


main()
