package postgres

import (
	"strings"
	"unicode"
)

// secretPiece is how many letters and digits of the password in a row give it
// away.
const secretPiece = 6

// serverText is what a server said, in one line. A server may say anything, and it
// may know the password: words that hold a piece of that are left out, however
// they are cut, spaced or spelt.
func (c *Config) serverText(text string) string {
	if c.repeatsPassword(text) {
		return "the server's words are not shown: they repeat a part of the password"
	}
	return oneLine(text)
}

func (c *Config) repeatsPassword(text string) bool {
	password := letters(c.conn.Password)
	if password == "" { // of signs alone, or none
		return c.conn.Password != "" && strings.Contains(text, c.conn.Password)
	}
	text = letters(text)
	// What everybody may see is no secret, also if the password has it too.
	public := letters(c.Address()) + " " + letters(c.conn.User) + " lockrun postgres password"
	size := min(secretPiece, len(password))
	for i := range len(password) - size + 1 {
		piece := password[i : i+size]
		if strings.Contains(text, piece) && !strings.Contains(public, piece) {
			return true
		}
	}
	return false
}

// letters keeps the letters and digits, in lower case.
func letters(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, s)
}
