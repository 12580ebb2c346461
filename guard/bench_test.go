package guard

import (
	"testing"
	"time"
)

// BenchmarkDate reads a date, and finds the one that a word means.
func BenchmarkDate(b *testing.B) {
	zone, err := LoadZone("Europe/Vienna", func(string) (string, bool) { return "", false })
	if err != nil {
		b.Fatal(err)
	}
	at := time.Date(2026, 3, 29, 3, 30, 0, 0, time.UTC)
	for _, text := range []string{"2026-07-01", "2026-07-01T23:59", "2026-W53", "today", "last-hour", "last-month"} {
		b.Run(text, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				d, err := ParseDate(text)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := d.At(at, zone, 6*time.Hour); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
