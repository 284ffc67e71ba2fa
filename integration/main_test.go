package integration

import (
	"os"
	"testing"

	"minsep/internal/teststate"
)

func TestMain(m *testing.M) { os.Exit(teststate.Main{Tests: m}.Run()) }
