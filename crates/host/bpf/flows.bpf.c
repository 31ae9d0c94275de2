// The unified flow table in the kernel.
//
// A NIC of a pod is a pair of links; `nic` runs at the switch's end of it for every packet that the pod sends. `uplink` runs where an adapter's packets
// come in, and `tunnel` where a VXLAN device has popped them. If a packet's flow is in the table, its new headers are written and it goes straight to
// the other pod, or out by an adapter. If not, it goes up to the engine by a TAP device, and what the engine sends to a pod comes back the same way,
// where `engine` takes it.
//
// Nothing is decided here: an entry is what the engine has decided, and holds only while the generations of its ports are those it was decided
// under. That goes for openings too, which say what becomes of any first packet from one address to another. Keys and values are laid out as
// `kernel_flows/layout.rs` writes them. What is read of a packet, and what is too odd to be read, is as in `wire/src/headers/plain.rs`.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define FAMILY_IPV4 2
#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define NO_VLAN 0xffff
#define TCP_FIN 0x01
#define TCP_SYN 0x02
#define TCP_RST 0x04
#define TCP_ACK 0x10

// The parts of a transposition, as in `vfp/src/transposition.rs`.
#define PART_MACS 1
#define PART_ADDRESSES 2
#define PART_PORTS 4

// An entry whose packets also depend on a third port.
#define FLAG_PAST 1
// Its packets leave in VXLAN.
#define FLAG_PUSH 2
// They leave by an adapter.
#define FLAG_OUT 4
// They come by a tunnel, from `remote`.
#define FLAG_POPPED 8
// They answer.
#define FLAG_REPLY 16
// A connection of its name that is over may begin again without asking.
#define FLAG_AGAIN 32

// How many backends an opening may choose from.
#define BACKENDS 8

struct key {
    __u64 words[8];
};

struct flow {
    __u32 to;               // the switch's end of the receiving NIC, or an adapter
    __u16 mtu;              // the largest IP packet that may pass
    __u8 parts;             // what changes
    __u8 flags;
    __u32 ports[3];         // whose generations count: sender, receiver, and the one that answers go past
    __u32 generations[3];
    __u8 macs[12];          // new destination and source
    __be16 source_port;
    __be16 destination_port;
    __be32 source[4];       // new addresses; of IPv4 the first word counts
    __be32 destination[4];
    __be32 local[4];        // the ends of the tunnel, by which packets leave or come
    __be32 remote[4];
    __be32 next_hop[4];     // who takes them there
    __u32 vni;
    __be16 tunnel_port;
    __u16 unused;
    __u64 packets;
    __u64 bytes;
    __u64 seen;             // nanoseconds of the coarse clock
    __u64 tcp_flags;        // of all packets since the last that had SYN
};

// What becomes of first packets: both flows of the connection, but for the port that it is opened from. If there are backends to choose from, the
// flows are in an opening of each backend's own.
struct opening {
    struct key reply_key;
    struct flow forward;
    struct flow reply;
    __u64 backends;
    __u64 seed;
    __u64 hashes[BACKENDS];
};

// A connection that was opened here: its flows, and what they were decided under.
struct opened {
    struct key key;
    struct key reply_key;
    __u32 generations[2];
    __be32 remote[4];       // the node that its first packet came from by a tunnel
};

// Before a packet that goes up from a tunnel: what the tunnel has popped.
struct popped {
    __u32 vni;
    __u32 is_v4;
    __be32 remote[4];
};

// The near end of tunnels.
struct end {
    __be32 address[4];
    __u32 port;
};

struct tunnel {
    __u32 link;             // what stands for a link in keys
    __u32 tap;
};

// What became of packets. The first is those that never left the kernel; the others say why a packet went up.
enum way { FORWARDED, UNKNOWN, STALE, OPENING, ODD, LARGE, PAUSED, OPENED, WAYS };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 262144);
    __type(key, struct key);
    __type(value, struct flow);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 16384);
    __type(key, struct key);
    __type(value, struct opening);
} openings SEC(".maps");

// Connections that the engine has yet to hear of. Where it is full, no more are opened.
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 1 << 20);
} opened SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, __u32);
} generations SEC(".maps");

// The other end of a port, by the number of a link: from a NIC or an adapter the TAP device, from a NIC's TAP device the NIC, and from a VXLAN device
// its UDP port.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 32768);
    __type(key, __u32);
    __type(value, __u32);
} links SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 64);
    __type(key, struct end);
    __type(value, struct tunnel);
} tunnels SEC(".maps");

// The first word is not 0 while everything is to go by the engine, as during captures. The others say whose table this is, for the next process
// to find it: a map stays with a program that reads it.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 5);
    __type(key, __u32);
    __type(value, __u64);
} state SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, WAYS);
    __type(key, __u32);
    __type(value, __u64);
} ways SEC(".maps");

// Where a flow is put together: the stack is too small for it.
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct flow);
} scratch SEC(".maps");

// Where things are in a packet.
struct packet {
    struct key key;
    __u32 l4;       // where its transport header begins
    __u32 payload;  // and ends
    __u32 end;      // where the IP packet ends
    __u8 protocol;
    __u8 tcp_flags;
    __u8 v4;
};

static __always_inline void count(__u32 way) {
    __u64 *counter = bpf_map_lookup_elem(&ways, &way);
    if (counter)
        *counter += 1;
}

static __always_inline __u64 mac_word(const __u8 *mac) {
    return (__u64)mac[0] | (__u64)mac[1] << 8 | (__u64)mac[2] << 16 | (__u64)mac[3] << 24 | (__u64)mac[4] << 32 | (__u64)mac[5] << 40;
}

static __always_inline int is_group4(__be32 address) {
    __u32 bits = bpf_ntohl(address);
    return bits >> 28 == 14 || bits == 0xffffffff;
}

// Reads the transport header, and the rest of the key. Answers 0 if it cannot.
static __always_inline int read_transport(struct packet *packet, void *l4, void *data_end) {
    struct udphdr *udp = l4;
    if ((void *)(udp + 1) > data_end)
        return 0;
    __u32 length = packet->end - packet->l4;
    if (packet->protocol == PROTOCOL_TCP) {
        struct tcphdr *tcp = l4;
        if ((void *)(tcp + 1) > data_end)
            return 0;
        __u32 header = tcp->doff * 4;
        if (header < sizeof(*tcp) || header > length)
            return 0;
        packet->payload = packet->l4 + header;
        packet->tcp_flags = ((__u8 *)tcp)[13];
    } else if (packet->protocol == PROTOCOL_UDP) {
        __u32 total = bpf_ntohs(udp->len);
        if (total < sizeof(*udp) || total > length)
            return 0;
        packet->payload = packet->l4 + sizeof(*udp);
        packet->tcp_flags = 0;
    } else {
        return 0;
    }
    packet->key.words[5] = (__u64)bpf_ntohs(udp->source) << 48 | (__u64)bpf_ntohs(udp->dest) << 32 | (__u64)packet->protocol << 16 | NO_VLAN;
    return 1;
}

static __always_inline int read4(struct packet *packet, struct __sk_buff *skb, void *data, void *data_end) {
    struct iphdr *ip = data + ETH_HLEN;
    if ((void *)(ip + 1) > data_end)
        return 0;
    __u32 total = bpf_ntohs(ip->tot_len);
    if (*(__u8 *)ip != 0x45 || (ip->frag_off & bpf_htons(0x3fff)) || is_group4(ip->saddr) || is_group4(ip->daddr))
        return 0;
    if (total < sizeof(*ip) || ETH_HLEN + total > skb->len)
        return 0;
    __u32 sum = bpf_csum_diff(0, 0, (__be32 *)ip, sizeof(*ip), 0);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    if (sum != 0xffff)
        return 0;
    packet->v4 = 1;
    packet->protocol = ip->protocol;
    packet->l4 = ETH_HLEN + sizeof(*ip);
    packet->end = ETH_HLEN + total;
    packet->key.words[1] = 0xffff00000000ULL | bpf_ntohl(ip->saddr);
    packet->key.words[2] = 0;
    packet->key.words[3] = 0xffff00000000ULL | bpf_ntohl(ip->daddr);
    packet->key.words[4] = 0;
    return read_transport(packet, ip + 1, data_end);
}

static __always_inline int read6(struct packet *packet, struct __sk_buff *skb, void *data, void *data_end) {
    struct ipv6hdr *ip = data + ETH_HLEN;
    if ((void *)(ip + 1) > data_end)
        return 0;
    __u32 total = bpf_ntohs(ip->payload_len);
    if (ip->version != 6 || ip->saddr.s6_addr[0] == 0xff || ip->daddr.s6_addr[0] == 0xff)
        return 0;
    if (ETH_HLEN + sizeof(*ip) + total > skb->len)
        return 0;
    __be64 *source = (__be64 *)&ip->saddr, *destination = (__be64 *)&ip->daddr;
    packet->v4 = 0;
    packet->protocol = ip->nexthdr;
    packet->l4 = ETH_HLEN + sizeof(*ip);
    packet->end = packet->l4 + total;
    packet->key.words[1] = bpf_be64_to_cpu(source[1]);
    packet->key.words[2] = bpf_be64_to_cpu(source[0]);
    packet->key.words[3] = bpf_be64_to_cpu(destination[1]);
    packet->key.words[4] = bpf_be64_to_cpu(destination[0]);
    // IPv4 in the form of IPv6 would have the key of IPv4.
    if ((!packet->key.words[2] && packet->key.words[1] >> 32 == 0xffff) || (!packet->key.words[4] && packet->key.words[3] >> 32 == 0xffff))
        return 0;
    return read_transport(packet, ip + 1, data_end);
}

// Reads a packet that nearly all packets are. Answers 0 if it is another, or not right: then the engine says what it is.
static __always_inline int read(struct packet *packet, struct __sk_buff *skb, __u64 from) {
    void *data = (void *)(long)skb->data, *data_end = (void *)(long)skb->data_end;
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > data_end || skb->vlan_present)
        return 0;
    // Neither from nor to a group of receivers.
    if ((ethernet->h_source[0] | ethernet->h_dest[0]) & 1)
        return 0;
    packet->key.words[0] = from;
    packet->key.words[6] = mac_word(ethernet->h_dest);
    packet->key.words[7] = mac_word(ethernet->h_source);
    if (ethernet->h_proto == bpf_htons(ETH_P_IP))
        return read4(packet, skb, data, data_end);
    if (ethernet->h_proto == bpf_htons(ETH_P_IPV6))
        return read6(packet, skb, data, data_end);
    return 0;
}

static __always_inline int is_current(__u32 port, __u32 generation) {
    __u32 *now = bpf_map_lookup_elem(&generations, &port);
    return now && *now == generation;
}

// A packet that is still to be cut is judged by its pieces.
static __always_inline int is_too_large(struct __sk_buff *skb, struct packet *packet, struct flow *flow) {
    __u32 length = packet->end - ETH_HLEN;
    if (skb->gso_size)
        length = packet->payload - ETH_HLEN + skb->gso_size;
    return length > flow->mtu;
}

// Writes new addresses and ports. The helpers know whether a checksum is complete or left to be completed.
static __always_inline int translate(struct __sk_buff *skb, struct packet *packet, struct flow *flow) {
    __u32 field = packet->l4 + (packet->protocol == PROTOCOL_TCP ? 16 : 6);
    // UDP over IPv4 without a checksum stays without.
    __u64 mangled = packet->protocol == PROTOCOL_UDP ? BPF_F_MARK_MANGLED_0 : 0;
    if (flow->parts & PART_ADDRESSES) {
        __u32 at = ETH_HLEN + (packet->v4 ? 12 : 8);
        __be32 before[8] = {}, after[8] = {};
        __s64 change;
        if (packet->v4) {
            if (bpf_skb_load_bytes(skb, at, before, 8))
                return -1;
            after[0] = flow->source[0];
            after[1] = flow->destination[0];
            change = bpf_csum_diff(before, 8, after, 8, 0);
            if (bpf_l3_csum_replace(skb, ETH_HLEN + 10, 0, change, 0) || bpf_skb_store_bytes(skb, at, after, 8, 0))
                return -1;
        } else {
            if (bpf_skb_load_bytes(skb, at, before, 32))
                return -1;
            __builtin_memcpy(after, flow->source, 16);
            __builtin_memcpy(after + 4, flow->destination, 16);
            change = bpf_csum_diff(before, 32, after, 32, 0);
            if (bpf_skb_store_bytes(skb, at, after, 32, 0))
                return -1;
        }
        if (bpf_l4_csum_replace(skb, field, 0, change, BPF_F_PSEUDO_HDR | mangled))
            return -1;
    }
    if (flow->parts & PART_PORTS) {
        __be16 before[2] = {}, after[2] = {flow->source_port, flow->destination_port};
        if (bpf_skb_load_bytes(skb, packet->l4, before, 4))
            return -1;
        if (bpf_l4_csum_replace(skb, field, before[0], after[0], 2 | mangled) || bpf_l4_csum_replace(skb, field, before[1], after[1], 2 | mangled))
            return -1;
        if (bpf_skb_store_bytes(skb, packet->l4, after, 4, 0))
            return -1;
    }
    return 0;
}

static __always_inline void note(struct __sk_buff *skb, struct packet *packet, struct flow *flow) {
    __sync_fetch_and_add(&flow->packets, 1);
    __sync_fetch_and_add(&flow->bytes, skb->len);
    flow->seen = bpf_ktime_get_coarse_ns();
    // Each side begins with SYN, and what a connection of the same name did before does not count any more.
    if (packet->tcp_flags & TCP_SYN)
        flow->tcp_flags = packet->tcp_flags;
    else if (~flow->tcp_flags & packet->tcp_flags)
        __sync_fetch_and_or(&flow->tcp_flags, packet->tcp_flags);
}

static __always_inline int are_current(struct flow *flow) {
    if (!is_current(flow->ports[0], flow->generations[0]) || !is_current(flow->ports[1], flow->generations[1]))
        return 0;
    return !(flow->flags & FLAG_PAST) || is_current(flow->ports[2], flow->generations[2]);
}

// As in `vfp/src/flow/key.rs`: both halves of the product of two numbers, in one.
static __always_inline __u64 fold(__u64 left, __u64 right) {
    __u64 a = left >> 32, b = left & 0xffffffff, c = right >> 32, d = right & 0xffffffff;
    __u64 low = b * d, middle = a * d + (low >> 32), other = b * c + (middle & 0xffffffff);
    return left * right ^ (a * c + (middle >> 32) + (other >> 32));
}

static __always_inline __u64 mix(__u64 number) {
    return fold(number ^ 0x94d049bb133111ebULL, 0x9e3779b97f4a7c15ULL);
}

// The backend of a connection, as in `vfp/src/service.rs`: each has a score for the slot that the connection falls into, and the highest wins.
static __always_inline __u32 choose(struct opening *opening, struct packet *packet) {
    __u64 hash = opening->seed;
    for (int at = 1; at < 5; at++)
        hash = mix(hash ^ packet->key.words[at]);
    hash = mix(hash ^ ((__u64)packet->protocol << 32 | packet->key.words[5] >> 32));
    __u64 slot = mix(mix(hash) >> 50), best = 0;
    __u32 winner = 0;
    for (int at = 0; at < BACKENDS; at++) {
        if (at >= opening->backends)
            break;
        __u64 score = mix(slot ^ opening->hashes[at]);
        if (score >= best) {
            best = score;
            winner = at;
        }
    }
    return winner;
}

// What becomes of a first packet, if the engine has said so for all packets like it.
static __always_inline struct opening *find_opening(struct packet *packet) {
    struct key key = packet->key;
    key.words[5] &= 0x0000ffffffffffffULL;
    struct opening *opening = bpf_map_lookup_elem(&openings, &key);
    if (!opening || !opening->backends)
        return opening;
    key.words[7] |= (__u64)(choose(opening, packet) + 1) << 48;
    return bpf_map_lookup_elem(&openings, &key);
}

// Puts both flows of a connection into the table, whose first packet this is, and tells the engine. Answers nothing where the engine itself is to see the packet.
static __always_inline struct flow *open(struct packet *packet) {
    struct opening *opening = find_opening(packet);
    if (!opening || !are_current(&opening->forward))
        return 0;
    __u32 zero = 0;
    struct flow *flow = bpf_map_lookup_elem(&scratch, &zero);
    struct opened *event = bpf_ringbuf_reserve(&opened, sizeof(*event), 0);
    if (!event)
        return 0;
    __u16 port = packet->key.words[5] >> 48;
    struct key reply = opening->reply_key;
    reply.words[5] |= (__u64)port << 32;
    if (!flow)
        goto failed;
    *flow = opening->reply;
    flow->destination_port = bpf_htons(port);
    // Somebody else's answers may look the same: then the engine has to find them another name.
    if (bpf_map_update_elem(&flows, &reply, flow, BPF_NOEXIST))
        goto failed;
    *flow = opening->forward;
    flow->source_port = bpf_htons(port);
    if (bpf_map_update_elem(&flows, &packet->key, flow, BPF_NOEXIST)) {
        bpf_map_delete_elem(&flows, &reply);
        goto failed;
    }
    event->key = packet->key;
    event->reply_key = reply;
    event->generations[0] = flow->generations[0];
    event->generations[1] = flow->generations[1];
    __builtin_memcpy(event->remote, flow->remote, sizeof(event->remote));
    bpf_ringbuf_submit(event, 0);
    count(OPENED);
    return bpf_map_lookup_elem(&flows, &packet->key);
failed:
    bpf_ringbuf_discard(event, 0);
    return 0;
}

static __always_inline int is_paused(void) {
    __u32 zero = 0;
    __u64 *value = bpf_map_lookup_elem(&state, &zero);
    return !value || *value;
}

// The flow of a packet, if the packet may go by it; else the reason why not.
static __always_inline struct flow *find(struct __sk_buff *skb, struct packet *packet, __u32 *why) {
    int opens = (packet->tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN;
    struct flow *flow = bpf_map_lookup_elem(&flows, &packet->key);
    if (!flow && (opens || packet->protocol == PROTOCOL_UDP))
        flow = open(packet);
    // Who opens a connection may do so under the name of one that is over.
    else if (flow && opens && !(flow->flags & FLAG_AGAIN && flow->tcp_flags & (TCP_FIN | TCP_RST)))
        flow = 0;
    *why = opens ? OPENING : UNKNOWN;
    if (!flow)
        return 0;
    *why = STALE;
    if (!are_current(flow))
        return 0;
    *why = LARGE;
    return is_too_large(skb, packet, flow) ? 0 : flow;
}

// The headers before an inner packet. The first two bytes are none of them: they make all else lie where the processor likes it.
struct outer {
    __u8 unused[2];
    __u8 macs[12];
    __be16 ether_type;
    struct iphdr ip;
    struct udphdr udp;
    __be32 vxlan[2];
    __u8 inner[ETH_HLEN];
    __u8 also_unused[2];
};

#define OUTER_LENGTH (ETH_HLEN + sizeof(struct iphdr) + sizeof(struct udphdr) + 8 + ETH_HLEN)

// Writes outer headers, and hands the packet to whoever takes it to the other end.
static __always_inline int push(struct __sk_buff *skb, struct packet *packet, struct flow *flow) {
    struct outer outer = {};
    __u32 hash = bpf_get_hash_recalc(skb), length = skb->len;
    __u64 flags = BPF_F_ADJ_ROOM_FIXED_GSO | BPF_F_ADJ_ROOM_ENCAP_L3_IPV4 | BPF_F_ADJ_ROOM_ENCAP_L4_UDP | BPF_F_ADJ_ROOM_ENCAP_L2_ETH;
    if (bpf_skb_load_bytes(skb, 0, outer.inner, ETH_HLEN))
        return TC_ACT_SHOT;
    if (bpf_skb_adjust_room(skb, OUTER_LENGTH - ETH_HLEN, BPF_ADJ_ROOM_MAC, flags | BPF_F_ADJ_ROOM_ENCAP_L2(ETH_HLEN)))
        return TC_ACT_SHOT;
    outer.ether_type = bpf_htons(ETH_P_IP);
    outer.ip.version = 4;
    outer.ip.ihl = 5;
    outer.ip.tot_len = bpf_htons(OUTER_LENGTH - 2 * ETH_HLEN + length);
    // It may be fragmented on its way, as what the kernel's own devices send.
    outer.ip.id = bpf_get_prandom_u32();
    outer.ip.ttl = 64;
    outer.ip.protocol = PROTOCOL_UDP;
    outer.ip.saddr = flow->local[0];
    outer.ip.daddr = flow->remote[0];
    __u32 sum = bpf_csum_diff(0, 0, (__be32 *)&outer.ip, sizeof(outer.ip), 0);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    outer.ip.check = ~sum;
    // Networks and adapters spread flows by this.
    outer.udp.source = bpf_htons(0xc000 | (hash & 0x3fff));
    outer.udp.dest = flow->tunnel_port;
    outer.udp.len = bpf_htons(sizeof(outer.udp) + sizeof(outer.vxlan) + length);
    outer.vxlan[0] = bpf_htonl(0x08000000);
    outer.vxlan[1] = bpf_htonl(flow->vni << 8);
    struct bpf_redir_neigh next = {.nh_family = FAMILY_IPV4, .ipv4_nh = flow->next_hop[0]};
    __u32 to = flow->to;
    if (bpf_skb_store_bytes(skb, 0, outer.macs, OUTER_LENGTH, 0))
        return TC_ACT_SHOT;
    return bpf_redirect_neigh(to, &next, sizeof(next), 0);
}

// Sends a packet where its flow goes. One whose headers were written halfway goes nowhere.
static __always_inline int forward(struct __sk_buff *skb, struct packet *packet, struct flow *flow) {
    note(skb, packet, flow);
    if (flow->parts & (PART_ADDRESSES | PART_PORTS) && translate(skb, packet, flow))
        return TC_ACT_SHOT;
    if (flow->parts & PART_MACS && bpf_skb_store_bytes(skb, 0, flow->macs, sizeof(flow->macs), 0))
        return TC_ACT_SHOT;
    count(FORWARDED);
    if (flow->flags & FLAG_PUSH)
        return push(skb, packet, flow);
    return flow->flags & FLAG_OUT ? bpf_redirect(flow->to, 0) : bpf_redirect_peer(flow->to, 0);
}

SEC("classifier")
int nic(struct __sk_buff *skb) {
    __u32 here = skb->ifindex, why = PAUSED;
    struct packet packet = {};
    if (!is_paused()) {
        why = ODD;
        if (read(&packet, skb, (__u64)here << 32)) {
            struct flow *flow = find(skb, &packet, &why);
            if (flow)
                return forward(skb, &packet, flow);
        }
    }
    count(why);
    __u32 *tap = bpf_map_lookup_elem(&links, &here);
    return tap ? bpf_redirect(*tap, 0) : TC_ACT_SHOT;
}

// Whether a packet is for a tunnel of ours, whose device takes it.
static __always_inline int is_for_tunnel(struct packet *packet) {
    struct end end = {};
    if (packet->protocol != PROTOCOL_UDP)
        return 0;
    if (packet->v4) {
        end.address[0] = bpf_htonl((__u32)packet->key.words[3]);
    } else {
        ((__be64 *)end.address)[0] = bpf_cpu_to_be64(packet->key.words[4]);
        ((__be64 *)end.address)[1] = bpf_cpu_to_be64(packet->key.words[3]);
    }
    end.port = (packet->key.words[5] >> 32) & 0xffff;
    return bpf_map_lookup_elem(&tunnels, &end) != 0;
}

// What is not forwarded goes on to whoever else looks at it, and in the end to the machine, whose own filter says what it takes.
SEC("classifier")
int uplink(struct __sk_buff *skb) {
    __u32 here = skb->ifindex, why = PAUSED;
    struct packet packet = {};
    // A tag without a network only gives a priority; others are for those who have the VLAN.
    if (skb->vlan_present && (skb->vlan_tci & 0xfff || bpf_skb_vlan_pop(skb)))
        return TC_ACT_UNSPEC;
    if (read(&packet, skb, (__u64)here << 32)) {
        if (is_for_tunnel(&packet))
            return TC_ACT_UNSPEC;
        why = is_paused() ? PAUSED : UNKNOWN;
        struct flow *flow = why == PAUSED ? 0 : find(skb, &packet, &why);
        if (flow)
            return forward(skb, &packet, flow);
    } else {
        why = ODD;
    }
    __u32 *tap = bpf_map_lookup_elem(&links, &here);
    if (tap && !bpf_clone_redirect(skb, *tap, 0))
        count(why);
    return TC_ACT_UNSPEC;
}

// Reads what the device has popped. Answers 0 if that is not known.
static __always_inline int read_popped(struct __sk_buff *skb, struct popped *popped, struct end *end) {
    struct bpf_tunnel_key outer = {};
    if (!bpf_skb_get_tunnel_key(skb, &outer, sizeof(outer), 0)) {
        popped->is_v4 = 1;
        popped->remote[0] = bpf_htonl(outer.remote_ipv4);
        end->address[0] = bpf_htonl(outer.local_ipv4);
    } else if (!bpf_skb_get_tunnel_key(skb, &outer, sizeof(outer), BPF_F_TUNINFO_IPV6)) {
        __builtin_memcpy(popped->remote, outer.remote_ipv6, sizeof(popped->remote));
        __builtin_memcpy(end->address, outer.local_ipv6, sizeof(end->address));
    } else {
        return 0;
    }
    popped->vni = outer.tunnel_id;
    return 1;
}

static __always_inline int comes_from(struct flow *flow, struct popped *popped) {
    __u32 other = 0;
    for (int at = 0; at < 4; at++)
        other |= flow->remote[at] ^ popped->remote[at];
    return flow->flags & FLAG_POPPED && !other;
}

SEC("classifier")
int tunnel(struct __sk_buff *skb) {
    __u32 here = skb->ifindex, why = PAUSED;
    struct popped popped = {};
    struct end end = {};
    struct packet packet = {};
    __u32 *port = bpf_map_lookup_elem(&links, &here);
    if (!port || !read_popped(skb, &popped, &end))
        return TC_ACT_SHOT;
    end.port = *port;
    struct tunnel *tunnel = bpf_map_lookup_elem(&tunnels, &end);
    if (!tunnel)
        return TC_ACT_SHOT;
    if (!is_paused()) {
        why = ODD;
        if (read(&packet, skb, (__u64)tunnel->link << 32 | popped.vni)) {
            struct flow *flow = find(skb, &packet, &why);
            if (flow && comes_from(flow, &popped))
                return forward(skb, &packet, flow);
            why = flow ? UNKNOWN : why;
        }
    }
    count(why);
    if (bpf_skb_change_head(skb, sizeof(popped), 0) || bpf_skb_store_bytes(skb, 0, &popped, sizeof(popped), 0))
        return TC_ACT_SHOT;
    return bpf_redirect(tunnel->tap, 0);
}

SEC("classifier")
int engine(struct __sk_buff *skb) {
    __u32 here = skb->ifindex;
    __u32 *nic = bpf_map_lookup_elem(&links, &here);
    return nic ? bpf_redirect_peer(*nic, 0) : TC_ACT_SHOT;
}

char _license[] SEC("license") = "Apache-2.0";
