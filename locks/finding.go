package locks

import "fmt"

// Grade says how a check of the ground came out.
type Grade string

// The grades, from good to bad.
const (
	GradeOK   Grade = "ok"
	GradeWarn Grade = "warn" // runs work, but a promise rests on less than it could
	GradeFail Grade = "fail" // runs won't work, or a promise does not hold
)

// Finding is what one check of the ground found. Its texts hold no secret; words
// of servers in them are not fit for a terminal until they are escaped.
type Finding struct {
	Check  string // which check, always by the same words: "redis persistence"
	Status Grade
	Text   string // where, what is, and after a semicolon what to do about it
}

// Findings collects what the checks of one server or one directory find.
type Findings struct {
	Where string // begins each text; "" = none
	List  []Finding
}

// OK notes that a check found nothing wrong.
func (f *Findings) OK(check, format string, args ...any) { f.add(check, GradeOK, format, args...) }

// Warn notes something that should be otherwise.
func (f *Findings) Warn(check, format string, args ...any) { f.add(check, GradeWarn, format, args...) }

// Fail notes something that must be otherwise.
func (f *Findings) Fail(check, format string, args ...any) { f.add(check, GradeFail, format, args...) }

func (f *Findings) add(check string, g Grade, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if f.Where != "" {
		text = f.Where + ": " + text
	}
	f.List = append(f.List, Finding{check, g, text})
}
