package platforms_test

import (
	"flag"
	"os"
	"testing"
)

// together is how many of these tests run concurrently by default. They wait for
// settle times and limits in real time, and need little of a processor.
const together = "16"

func TestMain(m *testing.M) {
	flag.Parse()
	said := false
	flag.Visit(func(f *flag.Flag) { said = said || f.Name == "test.parallel" })
	if !said {
		if err := flag.Set("test.parallel", together); err != nil {
			panic(err)
		}
	}
	os.Exit(m.Run())
}
