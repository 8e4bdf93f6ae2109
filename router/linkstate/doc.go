// Package linkstate holds one interior router's picture of its network: the neighbours, who is
// linked to whom at which cost, the path to every other router, and which router has consumers
// of which address. It speaks the router control protocol of Qpid Dispatch 1.19, protocol
// version 1 (inter-router.md sections 2 and 3, cited as IR 2.7 and so on).
//
// An [Engine] has no clock, socket, goroutine or lock. Its owner, the router's core goroutine,
// tells it what happened with [Engine.Step] and carries out the actions it returns, in order:
// an address must be mapped and a route in place before a message that relies on it is sent.
// The same events at the same times always give the same actions. Whatever a message or an
// action refers to is shared and must not be changed.
//
// A tick is due every second (IR 2.6), at times one in between; [Engine.Due] says when. A tick that comes late is one
// tick: ages are taken from the time given with it.
//
// Costs are whole numbers from 1 up. Sequence numbers count from 0, which means "nothing yet".
// Instances are numbers that differ between the starts of a router; those of 1.19 are Unix times
// in seconds, the same for two starts within one.
//
// # Where it does more than 1.19
//
// The protocol on the wire is that of 1.19. Within it the engine is quicker and steadier; each
// point is explained where it is made:
//
//   - a neighbour whose link drops is gone at once, path computation and advertisement included,
//     not only at the next tick;
//   - a link that comes up is greeted on at once, and so is a router heard for the first time; the
//     new neighbour is advertised without waiting for the tick, once between two;
//   - of several links to one neighbour the cheapest, then oldest, is used (IR 1.11);
//   - a request that got no answer is sent again, without waiting for the next advertisement;
//   - a differential MAU that does not fit is always dropped (IR 9.2);
//   - paths follow another router's link state at once, not at the next tick;
//   - a router out of reach is withdrawn, its addresses kept for its return (IR 9.3);
//   - an advertisement is passed on once, not over every simple path, and whatever its trace;
//   - what a restarted router said in its former life does not last;
//   - advertisements that fall due in one tick are one message;
//   - nothing ends at 127 routers, and only what a change affects is computed again.
package linkstate
