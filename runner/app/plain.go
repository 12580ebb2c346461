package app

import "strings"

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// onlyPlain tells whether text has one to most bytes, and only letters, digits and
// those of extra. Every process pays for what is compiled at its start, the
// guardian too, so this is no regular expression.
func onlyPlain(text, extra string, most int) bool {
	return text != "" && len(text) <= most && !strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune(letters+digits+extra, r)
	})
}

// isName tells whether text can be the name of a job.
func isName(text string) bool {
	return onlyPlain(text, "._:/-", 128) && strings.Contains(letters+digits, text[:1])
}

// isPlainKey tells whether text is a key that can't be a piece of a secret.
func isPlainKey(text string) bool {
	return onlyPlain(text, "_-", 40) && text == strings.ToLower(text) && text[0] >= 'a'
}
