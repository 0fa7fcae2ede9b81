from .here import order_pool_here as order_pool_here, turn_memory_here as turn_memory_here
