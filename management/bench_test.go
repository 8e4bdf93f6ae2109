package management

import (
	"fmt"
	"testing"

	"qdrouter/amqp"
)

// BenchmarkLinkPages is qdstat -l on a router with 10,000 links: 20 pages and the
// empty one that ends them. An operation is all of them.
func BenchmarkLinkPages(b *testing.B) {
	bench := newBench(b, standaloneConf)
	for i := range 10_000 {
		l := newLink(i)
		if i%2 == 1 {
			l.IngressHistogram = []uint64{5}
		}
		bench.core.links = append(bench.core.links, l)
	}
	b.ReportAllocs()
	for b.Loop() {
		octets := 0
		for offset := 0; offset <= 10_000; offset += 500 {
			req := Request{ReplyTo: "r", Properties: props("operation=QUERY", "entityType=router.link", fmt.Sprint("offset=", offset), "count=500"),
				Body: amqp.Map{{Key: "attributeNames", Value: amqp.List{}}}}
			resp := bench.Handle(req)
			octets += len(resp.Append(nil, &req))
		}
		b.ReportMetric(float64(octets), "octets")
	}
}
