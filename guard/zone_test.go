package guard

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

func TestLoadZone(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, data []byte) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good", ruleZone("<+07>-7", 0, 7*3600, 7*3600))
	bad := write("bad", []byte("TZif but not quite"))
	empty := write("empty", nil)
	missing := filepath.Join(dir, "missing\x1b")
	dangling, pipe := filepath.Join(dir, "dangling"), filepath.Join(dir, "pipe")
	if err := os.Symlink(missing, dangling); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}

	unset := map[string]string{}
	set := func(tz string) map[string]string { return map[string]string{"TZ": tz} }
	tests := map[string]struct {
		tz        string
		env       map[string]string
		localtime string
		want      string // name of the zone; "" = error
		offset    int    // hours, in July 2026
		quotes    string // what the error quotes
	}{
		"flag":                  {tz: "Asia/Ho_Chi_Minh", env: set("Europe/London"), want: "Asia/Ho_Chi_Minh", offset: 7},
		"flag_before_bad_TZ":    {tz: "Europe/London", env: set("Asia/Saigonn"), want: "Europe/London", offset: 1},
		"flag_UTC":              {tz: "UTC", env: unset, localtime: good, want: "UTC"},
		"flag_unknown":          {tz: "Asia/Saigonn", env: set("UTC"), quotes: "Asia/Saigonn"},
		"flag_Local":            {tz: "Local", env: set("UTC"), quotes: "Local"},
		"flag_path":             {tz: good, env: set("UTC"), quotes: good},
		"flag_colon":            {tz: ":Europe/London", env: set("UTC"), quotes: ":Europe/London"},
		"flag_climbs":           {tz: "../zoneinfo/UTC", env: set("UTC"), quotes: "../zoneinfo/UTC"},
		"flag_blank":            {tz: " ", env: set("UTC"), quotes: " "},
		"flag_directory":        {tz: "Europe", env: set("UTC"), quotes: "Europe"},
		"flag_control":          {tz: "\x1b[31m\n", env: set("UTC"), quotes: "\x1b[31m\n"},
		"flag_nul":              {tz: "Europe/London\x00", env: set("UTC"), quotes: "Europe/London\x00"},
		"TZ":                    {env: set("America/New_York"), localtime: good, want: "America/New_York", offset: -4},
		"TZ_colon":              {env: set(":America/New_York"), want: "America/New_York", offset: -4},
		"TZ_unknown":            {env: set("Asia/Saigonn"), localtime: good, quotes: "Asia/Saigonn"},
		"TZ_unknown_colon":      {env: set(":Asia/Saigonn"), localtime: good, quotes: "Asia/Saigonn"},
		"TZ_Local":              {env: set("Local"), localtime: good, quotes: "Local"},
		"TZ_rule":               {env: set("CET-1CEST"), localtime: good, quotes: "CET-1CEST"},
		"TZ_empty":              {env: set(""), localtime: good, want: "UTC"},
		"TZ_colon_alone":        {env: set(":"), localtime: good, want: "UTC"},
		"TZ_path":               {env: set(good), want: good, offset: 7},
		"TZ_path_colon":         {env: set(":" + good), want: good, offset: 7},
		"TZ_path_missing":       {env: set(missing), localtime: good, quotes: missing},
		"TZ_path_bad":           {env: set(bad), localtime: good, quotes: bad},
		"TZ_path_empty":         {env: set(empty), localtime: good, quotes: empty},
		"TZ_path_directory":     {env: set(dir), localtime: good, quotes: dir},
		"TZ_path_pipe":          {env: set(pipe), localtime: good, quotes: pipe},
		"host":                  {env: unset, localtime: good, want: "Local", offset: 7},
		"host_has_none":         {env: unset, localtime: filepath.Join(dir, "none"), want: "UTC"},
		"host_link_to_nowhere":  {env: unset, localtime: dangling},
		"host_file_is_damaged":  {env: unset, localtime: bad},
		"host_file_is_no_file":  {env: unset, localtime: dir},
		"host_file_of_no_bytes": {env: unset, localtime: empty},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			loc, err := loadZone(test.tz, environ(test.env), test.localtime)
			if test.want == "" {
				if err == nil {
					t.Fatalf("got %v, want an error", loc)
				}
				if test.quotes != "" {
					checkMessage(t, err, test.quotes)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			july := time.Date(2026, time.July, 1, 0, 0, 0, 0, time.UTC)
			if got := offset(july.In(loc)); loc.String() != test.want || got != time.Duration(test.offset)*time.Hour {
				t.Errorf("got %v at %v, want %s at %d h", loc, got, test.want, test.offset)
			}
		})
	}
}

func TestLoadZoneOfThisHost(t *testing.T) {
	if loc, err := LoadZone("Europe/London", environ(nil)); err != nil || loc.String() != "Europe/London" {
		t.Errorf("LoadZone = %v, %v", loc, err)
	}
	// Whatever this host has, an error and a zone exclude each other.
	if loc, err := LoadZone("", environ(nil)); (err == nil) == (loc == nil) {
		t.Errorf("LoadZone = %v, %v", loc, err)
	}
}

// TestChanges holds changes against a walk in steps of a quarter of an hour,
// gone over again by the minute where it finds one.
func TestChanges(t *testing.T) {
	from, to := time.Date(2006, 12, 1, 0, 0, 0, 0, time.UTC), time.Date(2033, 2, 1, 0, 0, 0, 0, time.UTC)
	const step = 15 * time.Minute
	for name, loc := range testZones(t) {
		t.Run(name, func(t *testing.T) {
			var want []time.Time
			for at := from.Add(step); at.Before(to); at = at.Add(step) {
				before := offset(at.Add(-step).In(loc))
				if offset(at.In(loc)) == before {
					continue
				}
				change := at.Add(-step)
				for offset(change.In(loc)) == before {
					change = change.Add(time.Minute)
				}
				want = append(want, change)
			}
			var got []time.Time
			for change := range changes(from.In(loc), to) {
				got = append(got, change)
			}
			if len(got) != len(want) {
				t.Fatalf("got %d changes, want %d:\n%v\n%v", len(got), len(want), got, want)
			}
			for i := range got {
				if !got[i].Equal(want[i]) {
					t.Errorf("change %d is at %v, want %v", i, got[i].UTC(), want[i])
				}
			}
		})
	}
}

// testZones are zones with all kinds of changes, by name. The slim ones have one
// change in their table and a rule ever after, as zone files of the slim kind
// do: package time's bounds are wrong there. The last one is put on by ten
// minutes in the midst of an hour.
func testZones(t testing.TB) map[string]*time.Location {
	t.Helper()
	zones := map[string]*time.Location{}
	for _, name := range []string{
		"UTC", "Europe/London", "Europe/Dublin", "America/New_York", "America/St_Johns", "America/Havana",
		"America/Ciudad_Juarez", "America/Metlakatla", "America/Juneau", "America/Nuuk", "Asia/Beirut",
		"Asia/Ho_Chi_Minh", "Asia/Kolkata", "Asia/Kathmandu", "Asia/Manila", "Asia/Gaza", "Africa/Casablanca",
		"Africa/Cairo", "Africa/Monrovia", "Antarctica/Troll", "Australia/Lord_Howe", "Pacific/Apia",
		"Pacific/Chatham", "Pacific/Kwajalein",
	} {
		zones[name] = zone(t, name)
	}
	load := func(name string, data []byte) {
		loc, err := time.LoadLocationFromTZData(name, data)
		if err != nil {
			t.Fatal(err)
		}
		zones[name] = loc
	}
	load("slim_New_York", ruleZone("EST5EDT,M3.2.0,M11.1.0", 1194156000, -4*3600, -5*3600))
	load("slim_Ciudad_Juarez", ruleZone("MST7MDT,M3.2.0,M11.1.0", 1669788000, -6*3600, -7*3600))
	load("forward_at_09:20", ruleZone("<+07>-7", 1499999400, 7*3600-600, 7*3600))
	return zones
}

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := LoadZone(name, environ(nil))
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// ruleZone is a zone file (RFC 9636) with one change at the given second, from
// one offset to another, and a rule for all time after it.
func ruleZone(rule string, at int64, before, after int32) []byte {
	block := func(sec any) []byte {
		var b bytes.Buffer
		b.WriteString("TZif2")
		b.Write(make([]byte, 15))
		for _, v := range []any{
			[6]uint32{0, 0, 0, 1, 2, 8}, // 1 change, 2 kinds of time, 8 bytes of names
			sec, uint8(1),
			before, uint8(0), uint8(0),
			after, uint8(0), uint8(4),
			[]byte("OLD\x00NEW\x00"),
		} {
			if err := binary.Write(&b, binary.BigEndian, v); err != nil {
				panic(err)
			}
		}
		return b.Bytes()
	}
	data := append(block(int32(at)), block(at)...)
	return append(data, "\n"+rule+"\n"...)
}
