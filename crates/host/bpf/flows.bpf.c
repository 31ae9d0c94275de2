// The unified flow table in the kernel.
//
// A NIC of a pod is a pair of links; `nic` runs at the switch's end of it for every packet that the pod sends. If the packet's flow is in the
// table, its new headers are written and it goes straight to the other pod. If not, it goes up to the engine by the port's TAP device, and what
// the engine sends to the pod comes back the same way, where `engine` takes it.
//
// Nothing is decided here: an entry is what the engine has decided, and holds only while the generations of its ports are those it was decided
// under. Keys and values are laid out as `kernel_flows.rs` writes them. What is read of a packet, and what is too odd to be read, is as in
// `wire/src/headers/plain.rs`.

#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include <linux/udp.h>

#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define PROTOCOL_TCP 6
#define PROTOCOL_UDP 17
#define NO_VLAN 0xffff
#define TCP_SYN 0x02
#define TCP_ACK 0x10

// The parts of a transposition, as in `vfp/src/transposition.rs`.
#define PART_MACS 1
#define PART_ADDRESSES 2
#define PART_PORTS 4

// An entry whose packets also depend on a third port.
#define FLAG_PAST 1

struct key {
    __u64 words[8];
};

struct flow {
    __u32 to;               // the switch's end of the receiving NIC
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
    __u64 packets;
    __u64 bytes;
    __u64 seen;             // nanoseconds of the coarse clock
    __u64 tcp_flags;
};

// What became of packets. The first is those that never left the kernel; the others say why a packet went up.
enum way { FORWARDED, UNKNOWN, STALE, OPENING, ODD, LARGE, PAUSED, WAYS };

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 262144);
    __type(key, struct key);
    __type(value, struct flow);
} flows SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 16384);
    __type(key, __u32);
    __type(value, __u32);
} generations SEC(".maps");

// The other end of a port, by the number of a link: from the NIC the TAP device, and from the TAP device the NIC.
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __uint(max_entries, 32768);
    __type(key, __u32);
    __type(value, __u32);
} links SEC(".maps");

// One word: not 0 while everything is to go by the engine, as during captures.
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u32);
} paused SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, WAYS);
    __type(key, __u32);
    __type(value, __u64);
} ways SEC(".maps");

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

static __always_inline int go_up(struct __sk_buff *skb, __u32 why) {
    __u32 here = skb->ifindex;
    __u32 *tap = bpf_map_lookup_elem(&links, &here);
    count(why);
    return tap ? bpf_redirect(*tap, 0) : TC_ACT_SHOT;
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
static __always_inline int read(struct packet *packet, struct __sk_buff *skb) {
    void *data = (void *)(long)skb->data, *data_end = (void *)(long)skb->data_end;
    struct ethhdr *ethernet = data;
    if ((void *)(ethernet + 1) > data_end || skb->vlan_present)
        return 0;
    // Neither from nor to a group of receivers.
    if ((ethernet->h_source[0] | ethernet->h_dest[0]) & 1)
        return 0;
    packet->key.words[0] = (__u64)skb->ifindex << 32;
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
    if (~flow->tcp_flags & packet->tcp_flags)
        __sync_fetch_and_or(&flow->tcp_flags, packet->tcp_flags);
}

SEC("classifier")
int nic(struct __sk_buff *skb) {
    __u32 zero = 0;
    __u32 *is_paused = bpf_map_lookup_elem(&paused, &zero);
    if (!is_paused || *is_paused)
        return go_up(skb, PAUSED);
    struct packet packet = {};
    if (!read(&packet, skb))
        return go_up(skb, ODD);
    // Who opens a connection may do so under the name of one that is over.
    if ((packet.tcp_flags & (TCP_SYN | TCP_ACK)) == TCP_SYN)
        return go_up(skb, OPENING);
    struct flow *flow = bpf_map_lookup_elem(&flows, &packet.key);
    if (!flow)
        return go_up(skb, UNKNOWN);
    if (!is_current(flow->ports[0], flow->generations[0]) || !is_current(flow->ports[1], flow->generations[1]))
        return go_up(skb, STALE);
    if (flow->flags & FLAG_PAST && !is_current(flow->ports[2], flow->generations[2]))
        return go_up(skb, STALE);
    if (is_too_large(skb, &packet, flow))
        return go_up(skb, LARGE);
    note(skb, &packet, flow);
    // A packet whose headers were written halfway goes nowhere.
    if (flow->parts & (PART_ADDRESSES | PART_PORTS) && translate(skb, &packet, flow))
        return TC_ACT_SHOT;
    if (flow->parts & PART_MACS && bpf_skb_store_bytes(skb, 0, flow->macs, sizeof(flow->macs), 0))
        return TC_ACT_SHOT;
    count(FORWARDED);
    return bpf_redirect_peer(flow->to, 0);
}

SEC("classifier")
int engine(struct __sk_buff *skb) {
    __u32 here = skb->ifindex;
    __u32 *nic = bpf_map_lookup_elem(&links, &here);
    return nic ? bpf_redirect_peer(*nic, 0) : TC_ACT_SHOT;
}

char _license[] SEC("license") = "Apache-2.0";
