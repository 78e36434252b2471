"""From the sample to the store, and from the inventory to the allocator: queue, sender, reporter."""
