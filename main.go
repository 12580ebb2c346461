// Command lockrun runs a batch once per name and business date, on however many
// hosts wake up for it.
package main

import (
	"os"

	"lockrun/runner/app"
)

func main() {
	os.Exit(app.Main(os.Args, os.Stdout, os.Stderr))
}
