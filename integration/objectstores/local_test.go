package objectstores_test

import (
	"testing"

	"minsep/integration/objectstores"
)

func TestLocal(t *testing.T) { objectstores.Conformance(t, t.TempDir(), 64<<20) }
