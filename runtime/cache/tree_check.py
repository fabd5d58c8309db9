"""The invariants of the prefix tree, for tests and for debug mode."""

import numpy as np

from lmc.runtime.cache.radix_node import RadixNode
from lmc.runtime.cache.radix_tree import RadixTree


def check_tree(tree: RadixTree) -> None:
    """Verify every invariant of the tree.

    Raises:
        AssertionError: one is broken; the message says which.
    """
    evictable = protected = held = 0
    sizes: dict[str, int] = {}
    nodes = list(tree.nodes())
    for node in [tree.root, *nodes]:
        _check_node(tree, node)
        sizes[node.namespace] = sizes.get(node.namespace, 0) + len(node)
        if node.lock_ref == 0:
            evictable += len(node)
            held += len(node) if node.hold_ref else 0
        else:
            protected += len(node)
    slots = np.concatenate([tree.root.slots, *(node.slots for node in nodes)])
    assert len(np.unique(slots)) == len(slots), "a slot is twice in the tree"
    assert evictable == tree.evictable_len, (evictable, tree.evictable_len)
    assert protected == tree.protected_len, (protected, tree.protected_len)
    assert held == tree.held_len, (held, tree.held_len)
    assert len(nodes) == tree.num_nodes, (len(nodes), tree.num_nodes)
    assert {name: size for name, size in sizes.items() if size} == tree.namespaces
    entries = [id(n) for key, _, n in tree.evictions.spare if n.in_heap and key == n.heap_key]
    assert len(entries) == len(set(entries)), "a node is twice in the eviction heap"
    waiting = {id(n) for key, _, n in tree.evictions.held if key == n.held_key}
    free = [node for node in nodes if node.is_evictable and node.groups]
    assert waiting.issuperset(map(id, free)), "a held leaf is missing from its heap"


def _check_node(tree: RadixTree, node: RadixNode) -> None:
    assert len(node.key) == len(node.slots), "key and slots differ in length"
    assert node.data == node.key.astype(np.int32).tobytes(), "the bytes are of another key"
    assert (len(node) == 0) == (node is tree.root), "only the root is empty"
    assert len(node) % tree.page_size == 0, "a node has a part of a page"
    below = sum(child.lock_ref for child in node.children.values())
    assert node.lock_ref == node.holders + below, "lock_ref is not the locks below"
    below = sum(child.hold_ref for child in node.children.values())
    held = sum(len(group.holds) for group in node.groups.values())
    assert node.hold_ref == held + below, "hold_ref is not the holds below"
    for token, group in node.groups.items():
        assert (group.node, group.token) == (node, token), "a group names another place"
        assert all(hold.group is group for hold in group.holds), "a hold names another group"
        assert group.best == min(hold.rank for hold in group.holds), "a rank is outdated"
        assert group.holds.keys() >= group.watched.keys(), "a watched hold is gone"
    assert not node.is_spare or node.in_heap, "a spare leaf is missing from the heap"
    is_late = node.held_key is not None and node.groups and node.held_key > node.need
    assert not (is_late and node.is_evictable), "a held leaf would be evicted too late"
    for edge, child in node.children.items():
        assert child.begin == node.end, "a child begins elsewhere than its parent ends"
        assert child.parent is node, "a child has another parent"
        right = tree.edge_of(node, child.key, 0, child.namespace)
        assert edge == child.edge == right, "a child sits under another token"
        is_same = node is tree.root or child.namespace == node.namespace
        assert is_same, "a child is in another namespace"
        assert child.stamp <= node.stamp, "a child was used after its parent"
