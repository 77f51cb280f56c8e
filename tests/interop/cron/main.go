// SPDX-License-Identifier: MIT

// The program that makes tests/data/cron: expressions, the moments that robfig/cron v3, the library
// of asynq's scheduler, finds for them, and expressions that it refuses. It always writes the same:
// its random numbers and its time zones (tests/data/zoneinfo) are fixed.
//
//	cd tests/interop && go run ./cron ../data/zoneinfo ../data/cron
package main

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
)

// A generator of its own: those of Go may change from version to version.
type random struct{ state uint64 }

func (r *random) below(n int) int {
	r.state ^= r.state << 13
	r.state ^= r.state >> 7
	r.state ^= r.state << 17
	return int(r.state >> 11 % uint64(n))
}

func (r *random) pick(texts []string) string { return texts[r.below(len(texts))] }

const secondsFlag = 1 // QN_CRON_SECONDS

var withSeconds = cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month |
	cron.Dow | cron.Descriptor)

// What makes the library panic is refused as well.
func parse(expression string, flags int) (schedule cron.Schedule, err error) {
	defer func() {
		if recover() != nil {
			err = fmt.Errorf("panic")
		}
	}()
	if flags&secondsFlag != 0 {
		return withSeconds.Parse(expression)
	}
	return cron.ParseStandard(expression)
}

type maker struct {
	random  random
	zones   []string
	folder  string
	seen    map[string]bool
	vectors []string
	refused []string
}

func (m *maker) location(name string) *time.Location {
	location, err := time.LoadLocation(name)
	if err != nil {
		panic(err)
	}
	return location
}

// Anything but visible ASCII, and the backslash, as \xNN.
func escape(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		if c <= 0x20 && c != ' ' || c >= 0x7f || c == '\\' {
			fmt.Fprintf(&out, "\\x%02x", c)
		} else {
			out.WriteByte(c)
		}
	}
	return out.String()
}

// Zones that have left out a whole day, and when. The library's search, once it comes to such a
// day, never ends.
var leaps = map[string]time.Time{
	"Pacific/Apia":      time.Date(2011, 12, 31, 0, 0, 0, 0, time.UTC),
	"Pacific/Kwajalein": time.Date(1993, 8, 22, 0, 0, 0, 0, time.UTC),
}

func endless(zone string, start time.Time) bool {
	leap, ok := leaps[zone]
	return ok && start.Before(leap.AddDate(0, 0, 2)) && start.After(leap.AddDate(-16, 0, 0))
}

// Notes what the library makes of the expression, with this zone as the scheduler's.
func (m *maker) try(zone string, flags int, start time.Time, expression string) {
	if _, named, found := strings.Cut(expression, "TZ="); found {
		named, _, _ = strings.Cut(named, " ")
		if endless(named, start) {
			return
		}
	}
	if endless(zone, start) {
		return
	}
	key := fmt.Sprintf("%s\t%d\t%d\t%s", zone, flags, start.UnixMilli(), expression)
	if m.seen[key] {
		return
	}
	m.seen[key] = true
	schedule, err := parse(expression, flags)
	if err != nil {
		key = fmt.Sprintf("%d\t%s", flags, escape(expression))
		if !m.seen[key] {
			m.refused = append(m.refused, key)
		}
		m.seen[key] = true
		return
	}
	moment := start.In(m.location(zone))
	line := fmt.Sprintf("%s\t%d\t%d", zone, flags, start.UnixMilli())
	for i := 0; i < 3; i++ {
		if !moment.IsZero() {
			moment = schedule.Next(moment)
		}
		if moment.IsZero() {
			line += "\t-"
		} else {
			line += fmt.Sprintf("\t%d", moment.Unix())
		}
	}
	m.vectors = append(m.vectors, line+"\t"+escape(expression))
}

// The changes of a zone between two years, in order.
func (m *maker) changes(zone string, from, to int) []time.Time {
	var found []time.Time
	location := m.location(zone)
	at := time.Date(from, 1, 1, 0, 0, 0, 0, time.UTC).In(location)
	for {
		_, end := at.ZoneBounds()
		if !end.IsZero() && !end.After(at) {
			end = at.Add(24 * time.Hour) // Go's bounds end a day early in leap years
		}
		if end.IsZero() || end.Year() > to {
			return found
		}
		_, before := end.Add(-time.Second).Zone()
		_, after := end.Zone()
		if before != after {
			found = append(found, end)
		}
		at = end
	}
}

// Nights of a change: each start with each expression would be too many, so some are drawn.
func (m *maker) nights() {
	for _, zone := range m.zones {
		var changes []time.Time
		changes = append(changes, last(m.changes(zone, 1905, 1969), 2)...)
		historic := m.changes(zone, 1970, 2023)
		for i := 0; i < 3 && len(historic) > 0; i++ {
			changes = append(changes, historic[m.random.below(len(historic))])
		}
		changes = append(changes, last(historic, 1)...)
		changes = append(changes, first(m.changes(zone, 2026, 2028), 4)...)
		changes = append(changes, first(m.changes(zone, 2100, 2102), 2)...)
		for _, change := range changes {
			m.night(zone, change)
		}
	}
}

func first(moments []time.Time, count int) []time.Time {
	return moments[:min(count, len(moments))]
}

func last(moments []time.Time, count int) []time.Time {
	return moments[max(0, len(moments)-count):]
}

func (m *maker) night(zone string, change time.Time) {
	local := change.Add(-time.Second)
	hour := local.Hour()
	expressions := []string{
		"30 2 * * *", "0 0 * * *", "@daily", "@hourly", "*/15 * * * *", "0 1-3 * * *",
		"59 23 * * *", "15 0,1,2 * * *", "0 3 * * *", "30 * * * *", "*/7 0-4 * * *", "@weekly",
		"@monthly", "0 12 * * *", "45 1 * * sat,sun", "@every 1h30m", "1 0 * * *",
		fmt.Sprintf("30 %d * * *", hour), fmt.Sprintf("%d %d * * *", (local.Minute()+31)%60, hour),
		fmt.Sprintf("5 %d,%d * * *", hour, (hour+1)%24),
		fmt.Sprintf("30 %d %d %d *", (hour+1)%24, change.Day(), change.Month()),
		fmt.Sprintf("0 0 %d %d *", change.Day(), change.Month()),
		fmt.Sprintf("0 %d * %d %d", hour, change.Month(), change.Weekday()),
		fmt.Sprintf("30 0 %d * ?", change.Day()),
	}
	starts := []time.Duration{-25 * time.Hour, -24*time.Hour - 30*time.Minute, -3 * time.Hour,
		-90 * time.Minute, -time.Hour, -30 * time.Minute, -time.Second, -time.Millisecond, 0,
		time.Second, 29*time.Minute + 500*time.Millisecond, 59 * time.Minute, 2 * time.Hour}
	for i := 0; i < 10; i++ {
		start := change.Add(starts[m.random.below(len(starts))])
		m.try(zone, 0, start, m.random.pick(expressions))
	}
	second := fmt.Sprintf("%d */20 %d * * *", m.random.below(60), hour)
	m.try(zone, secondsFlag, change.Add(starts[m.random.below(len(starts))]), second)
}

var monthNames = []string{"jan", "Feb", "MAR", "apr", "May", "jun", "jul", "aug", "sep", "oct",
	"nov", "DEC"}
var weekdayNames = []string{"sun", "Mon", "TUE", "wed", "thu", "fri", "Sat"}

type bounds struct {
	low, high int
	names     []string
}

var fields = []bounds{{0, 59, nil}, {0, 59, nil}, {0, 23, nil}, {1, 31, nil}, {1, 12, monthNames},
	{0, 6, weekdayNames}}

func (m *maker) value(b bounds, number int) string {
	if b.names != nil && m.random.below(3) == 0 {
		return b.names[number-b.low]
	}
	return fmt.Sprint(number)
}

func (m *maker) part(b bounds) string {
	size := b.high - b.low + 1
	low := b.low + m.random.below(size)
	switch m.random.below(8) {
	case 0:
		return fmt.Sprintf("*/%d", 1+m.random.below(size))
	case 1:
		return fmt.Sprintf("%s/%d", m.value(b, low), 1+m.random.below(size))
	case 2, 3:
		high := low + m.random.below(b.high-low+1)
		text := m.value(b, low) + "-" + m.value(b, high)
		if m.random.below(3) == 0 {
			text += fmt.Sprintf("/%d", 1+m.random.below(10))
		}
		return text
	default:
		return m.value(b, low)
	}
}

func (m *maker) field(b bounds) string {
	switch m.random.below(10) {
	case 0, 1, 2:
		return "*"
	case 3:
		return "?"
	}
	text := m.part(b)
	for m.random.below(3) == 0 {
		text += "," + m.part(b)
	}
	return text
}

func (m *maker) expression(flags int) string {
	var texts []string
	for i := 1 - flags&secondsFlag; i < len(fields); i++ {
		texts = append(texts, m.field(fields[i]))
	}
	return strings.Join(texts, " ")
}

// 1970 to 2200, to the millisecond.
func (m *maker) moment() time.Time {
	return time.UnixMilli(int64(m.random.below(230*366*86400))*1000 + int64(m.random.below(1000)))
}

func (m *maker) anything(count int) {
	for i := 0; i < count; i++ {
		flags := m.random.below(5) / 4
		expression := m.expression(flags)
		if m.random.below(4) == 0 {
			prefix := []string{"TZ=", "CRON_TZ="}[m.random.below(2)]
			expression = prefix + m.random.pick(m.zones) + " " + expression
		}
		m.try(m.random.pick(m.zones), flags, m.moment(), expression)
	}
}

func (m *maker) intervals() {
	durations := []string{"1s", "1.5s", "0.9s", "59.999s", "90s", "1h", "1h30m", "1.5h", "24h", "720h",
		"-5s", "+5s", "0", "-0", "+0", "100ms", "1999ms", "1us", "5000000us", "5000000µs",
		"5000000μs", "3600000000000ns", "1h1m1s1ms1us1ns", "1m1m", "1s1h", ".5m", "5.m", "0.1h",
		"0.123456789123456789123456789h", "1.00000000000000000000001s", "87600h", "2562047h",
		"9223372036s", "9223372036854775807ns", "-9223372036854775808ns", "00001s", "0.0s", "0h0m0s",
		"9223372036854775808ns9223372036854775808ns", "0.3333333333333333333h", "8760h0.1s"}
	for _, duration := range durations {
		for i := 0; i < 2; i++ {
			m.try(m.random.pick(m.zones), 0, m.moment(), "@every "+duration)
		}
	}
	m.try("Europe/Berlin", secondsFlag, m.moment(), "@every 1s")
	m.try("Europe/Berlin", 0, m.moment(), "TZ=Asia/Tokyo @every 1s")
	for i := 0; i < 60; i++ {
		hours, seconds := m.random.below(100), m.random.below(4000)
		m.try("Etc/UTC", 0, m.moment(), fmt.Sprintf("@every %dh%d.%ds", hours, seconds,
			m.random.below(1000)))
	}
	descriptors := []string{"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight",
		"@hourly"}
	for _, descriptor := range descriptors {
		for i := 0; i < 20; i++ {
			m.try(m.random.pick(m.zones), i%2, m.moment(), descriptor)
		}
	}
}

// Expressions at the border of what is accepted, many of them beyond it.
func (m *maker) corners() {
	texts, err := os.ReadFile(filepath.Join(m.folder, "corners.txt"))
	if err != nil {
		panic(err)
	}
	unescape := strings.NewReplacer(`\t`, "\t", `\v`, "\v", `\r`, "\r", `\n`, "\n", `\f`, "\f",
		`\e`, "", `\u0085`, "\u0085", `\u00a0`, "\u00a0", `\u2003`, "\u2003", `\u3000`, "\u3000",
		`\u200b`, "\u200b", `\xff`, "\xff", `\x85`, "\x85")
	for _, line := range strings.Split(strings.TrimSuffix(string(texts), "\n"), "\n") {
		expression := unescape.Replace(line)
		for flags := 0; flags < 2; flags++ {
			for _, zone := range []string{"Etc/UTC", "America/New_York"} {
				m.try(zone, flags, m.moment(), expression)
			}
		}
	}
}

// Valid expressions with a few characters changed: the library says what has become of them.
func (m *maker) mutations(refused, count int) {
	const letters = "0123456789*?-/,@+ abdefjlmnoprstuwyTZ=.#LW"
	for i := 0; i < count; i++ {
		flags := m.random.below(2)
		text := []byte(m.expression(flags))
		if m.random.below(4) == 0 {
			text = []byte("@every " + fmt.Sprintf("%d.%dh%dm", m.random.below(99),
				m.random.below(99), m.random.below(99)))
		}
		for change := 1 + m.random.below(3); change > 0; change-- {
			at := m.random.below(len(text))
			letter := letters[m.random.below(len(letters))]
			switch m.random.below(3) {
			case 0:
				text[at] = letter
			case 1:
				text = append(text[:at], text[at+1:]...)
			case 2:
				text = append(text[:at], append([]byte{letter}, text[at:]...)...)
			}
		}
		if _, err := parse(string(text), flags); err == nil || len(m.refused) < refused {
			m.try(m.random.pick(m.zones), flags, m.moment(), string(text))
		}
	}
}

func write(path, comment string, lines []string) {
	file, err := os.Create(path)
	if err != nil {
		panic(err)
	}
	out := bufio.NewWriter(file)
	fmt.Fprintf(out, "# %s\n# Made by tests/interop/cron from robfig/cron v3; \\xNN is a byte.\n",
		comment)
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
	if out.Flush() != nil || file.Close() != nil {
		panic("cannot write " + path)
	}
}

// The names of all zones in the folder, in the order of a walk.
func zonesOf(folder string) []string {
	var zones []string
	err := filepath.WalkDir(folder, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() && strings.Contains(path[len(folder)+1:], "/") {
			zones = append(zones, path[len(folder)+1:])
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return zones
}

func main() {
	if len(os.Args) != 3 && len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: cron ZONEINFO DATA [OUT]")
		os.Exit(2)
	}
	folder := filepath.Clean(os.Args[1])
	// Before the first look at a zone: Go reads it once.
	if os.Setenv("ZONEINFO", folder) != nil || os.Setenv("TZ", "UTC") != nil {
		panic("environment")
	}
	out := os.Args[len(os.Args)-1]
	m := maker{random: random{state: 20261122}, zones: zonesOf(folder), folder: os.Args[2],
		seen: map[string]bool{}}
	m.corners()
	m.nights()
	m.intervals()
	m.anything(2000)
	m.mutations(800, 2500)
	write(filepath.Join(out, "next.txt"), "zone, flags, start in ms, three next moments in s or -, "+
		"expression; between tabs", m.vectors)
	write(filepath.Join(out, "refused.txt"), "flags, expression; between tabs", m.refused)
}
