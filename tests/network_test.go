package tests

import "testing"

func TestNetworkSmoke(t *testing.T) {
	n := newNetwork(t, "A-B B-C", netOptions{})
	for _, r := range n.query("A", "router.node") {
		t.Log(r)
	}
}
