"""When fields of cron are due, worked out by Python's own zones: an independent second opinion.

Reads `[[zone, fields, first, last], ...]` (epoch seconds) and writes the due times of each. A local time that comes
twice is due the first time (fold=0), and one that does not come is taken with the offset from before the clock was put
forward, which is what fold=0 means there. Fields whose hour begins with `*` are due whenever a clock shows them.
"""

import json
import sys
from datetime import datetime, timedelta, timezone
from zoneinfo import ZoneInfo

RANGES = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 7)]


def values(field, least, most):
    found = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        if span == "*":
            first, last = least, most
        else:
            first, _, last = span.partition("-")
            first, last = int(first), int(last or first)
        found.update(range(first, last + 1, int(step or 1)))
    return found


class Cron:
    def __init__(self, text):
        fields = text.split()
        self.minutes, self.hours, self.days, self.months, weekdays = [
            values(field, *span) for field, span in zip(fields, RANGES)
        ]
        self.weekdays = {day % 7 for day in weekdays}
        self.any_day, self.any_weekday = fields[2] == "*", fields[4] == "*"
        self.counts_hours = fields[1].startswith("*")

    def has_day(self, day):
        if day.month not in self.months:
            return False
        by_month, by_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        if self.any_day or self.any_weekday:
            return by_month and by_week
        return by_month or by_week


def by_day(cron, zone, first, last):
    day = datetime.fromtimestamp(first, zone).date() - timedelta(days=2)
    end = datetime.fromtimestamp(last, zone).date() + timedelta(days=2)
    while day <= end:
        if cron.has_day(day):
            for hour in cron.hours:
                for minute in cron.minutes:
                    yield int(datetime(day.year, day.month, day.day, hour, minute, tzinfo=zone).timestamp())
        day += timedelta(days=1)


def by_hour(cron, zone, first, last):
    # No zone is off by a part of a minute any more, so whole minutes are enough; quarters of an hour are where any
    # offset begins.
    for moment in range(first - first % 900, last + 1, 900):
        local = datetime.fromtimestamp(moment, zone)
        for minute in range(local.minute, local.minute + 15):
            if minute in cron.minutes and local.hour in cron.hours and cron.has_day(local):
                yield moment + (minute - local.minute) * 60


def due(zone, fields, first, last):
    cron, zone = Cron(fields), ZoneInfo(zone)
    found = (by_hour if cron.counts_hours else by_day)(cron, zone, first, last)
    return sorted({moment for moment in found if first < moment <= last})


print(json.dumps([due(*asked) for asked in json.load(sys.stdin)]))
